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

/// By place. Filled before main(), read afterwards.
std::map<int, Entry>& entries() {
  static std::map<int, Entry> all;
  return all;
}

constexpr const char* kTitle = "run";

}  // namespace

RunSection::RunSection(int place, Shape shape, Fill fill) {
  if (!entries().emplace(place, Entry{shape, fill}).second) {
    throw std::logic_error(fmt::format("two sections of a run have the place {}", place));
  }
}

Document run_document(const RunView& run) {
  Document document{.title = kTitle};
  for (const auto& [place, entry] : entries()) {
    Section section = entry.shape();
    entry.fill(section, run);
    document.sections.push_back(std::move(section));
  }
  return document;
}

Document run_document_shape() {
  Document document{.title = kTitle};
  for (const auto& [place, entry] : entries()) document.sections.push_back(entry.shape());
  return document;
}

}  // namespace meshbed::testbed::document
