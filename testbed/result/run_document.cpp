#include "testbed/result/run_document.h"

#include <fmt/format.h>

#include <map>
#include <stdexcept>
namespace meshbed::testbed::document {
namespace {

struct Entry {
  RunSection::Shape shape = nullptr;
  RunSection::Fill fill = nullptr;
};

/// By place. The sources of testbed/result/sections fill it before main(); it is read afterwards.
std::map<int, Entry>& entries() {
  static std::map<int, Entry> all;
  return all;
}

/// A run's document without its sections. What every tool reads comes first.
Document empty_document() {
  return {
      .title = "run",
      .first_keys = {"scenario", "world", "seed", "plugin_sha256", "ranks", "collective", "bytes", "time_ns",
                     "algbw_GBps", "busbw_GBps", "wrong", "messages", "cpu_s", "peak_rss_bytes", "proofs", "digest"}};
}

}  // namespace

RunSection::RunSection(int place, Shape shape, Fill fill) {
  if (!entries().emplace(place, Entry{shape, fill}).second) {
    throw std::logic_error(fmt::format("two sections of a run have the place {}", place));
  }
}

Document run_document(const RunView& run) {
  Document document = empty_document();
  for (const auto& [place, entry] : entries()) {
    Section section = entry.shape();
    entry.fill(section, run);
    document.sections.push_back(std::move(section));
  }
  return document;
}

Document run_document_shape() {
  Document document = empty_document();
  for (const auto& [place, entry] : entries()) document.sections.push_back(entry.shape());
  return document;
}

}  // namespace meshbed::testbed::document
