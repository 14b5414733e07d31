#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "testbed/base/json_text.h"
#include "testbed/page/page.h"
#include "testbed/result/zernel/metrics.h"
#include "testbed/serve/content.h"

namespace meshbed::testbed::serve {
namespace {

namespace fs = std::filesystem;

constexpr int kPageRefresh_s = 10;
constexpr std::size_t kFilesMost = 10'000;
constexpr std::uintmax_t kRecordsMostBytes = std::uintmax_t{256} << 20U;
constexpr std::uintmax_t kResultsMostBytes = std::uintmax_t{2} << 30U;

/// What is known of a folder's files without reading them.
struct Fingerprint {
  std::string text;
  std::uintmax_t bytes = 0;
};

void add_file(Fingerprint& print, const fs::directory_entry& file) {
  std::error_code problem;
  const std::uintmax_t size = file.file_size(problem);
  if (problem) return;  // it has gone meanwhile
  const auto time = file.last_write_time(problem).time_since_epoch().count();
  print.bytes += size;
  print.text += fmt::format("{}\n{}\n{}\n", file.path().string(), size, time);
}

/// Throws std::runtime_error where the folder cannot be listed, or has more files than a run or sweep writes.
Fingerprint fingerprint_of(const std::string& folder, int depth) {
  std::error_code problem;
  std::vector<fs::directory_entry> files;
  for (fs::recursive_directory_iterator each(folder, problem), end; !problem && each != end; each.increment(problem)) {
    if (each.depth() >= depth) each.disable_recursion_pending();
    std::error_code gone;
    if (each->is_regular_file(gone)) files.push_back(*each);
    if (files.size() > kFilesMost) {
      throw std::runtime_error(
          fmt::format("{}: has more than {} files; name the folder of one run", folder, kFilesMost));
    }
  }
  if (problem) throw std::runtime_error(fmt::format("{}: cannot be listed: {}", folder, problem.message()));
  std::sort(files.begin(), files.end());
  Fingerprint print;
  for (const fs::directory_entry& file : files) add_file(print, file);
  return print;
}

bool has_records(const std::string& folder) {
  const std::vector<std::string> names = zernel::stream_names();
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    std::error_code problem;
    return fs::is_regular_file(folder + "/" + name + zernel::kExtension, problem);
  });
}

}  // namespace

ResultsContent::ResultsContent(std::string folder) : folder_(std::move(folder)) {
  std::error_code problem;
  if (!fs::is_directory(folder_, problem)) {
    throw std::runtime_error(fmt::format(
        "{}: is not a folder; name one that meshbed run or sweep wrote, as results/SCENARIO/sim, or give --live",
        folder_));
  }
}

const zernel::Streams& ResultsContent::streams() {
  const std::string place = has_records(folder_) ? folder_ : folder_ + "/zernel";
  if (!has_records(place)) {
    streams_made_of_.clear();
    return streams_ = {};
  }
  const Fingerprint print = fingerprint_of(place, 0);
  if (print.bytes > kRecordsMostBytes) {
    throw std::runtime_error(fmt::format("{}: its records are {} bytes, more than {}; shorten the run", place,
                                         print.bytes, kRecordsMostBytes));
  }
  if (print.text == streams_made_of_) return streams_;
  zernel::Streams read;
  zernel::read_streams(read, place, std::nullopt);
  streams_ = std::move(read);
  streams_made_of_ = print.text;
  return streams_;
}

std::string ResultsContent::metrics() { return zernel::Metrics(streams()).prometheus(); }

std::string ResultsContent::json() { return json_text(zernel::Metrics(streams()).snapshot()); }

Reply ResultsContent::page() {
  const Fingerprint print = fingerprint_of(folder_, 2);
  if (print.bytes > kResultsMostBytes) {
    throw std::runtime_error(fmt::format("{}: has {} bytes, more than a live page is made of ({}); use meshbed report",
                                         folder_, print.bytes, kResultsMostBytes));
  }
  if (page_made_of_ != print.text || page_.empty()) {
    page_ = page::report_page({folder_});
    page_made_of_ = print.text;
  }
  return {.type = "text/html; charset=utf-8", .body = page_, .refresh_s = kPageRefresh_s};
}

Reply ResultsContent::other(std::string_view path) {
  for (const std::string& name : zernel::stream_names()) {
    if (path != "/" + name + zernel::kExtension) continue;
    return {.type = "application/octet-stream", .body = zernel::bytes_of(streams(), *zernel::parse_stream(name))};
  }
  return plain_reply(404,
                     "there is /, /metrics, /json, /health and /nccl.zev, /gpu_mem.zev, /cuda.zev, /dataload.zev, "
                     "/dist_sync.zev");
}

}  // namespace meshbed::testbed::serve
