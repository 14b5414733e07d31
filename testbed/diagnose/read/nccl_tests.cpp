// The tables of nccl-tests (src/common.cu of NVIDIA/nccl-tests 2.19.6) and of meshbed perf, which prints the same
// columns: size, count, type, redop, root, then out of place time, algbw, busbw and #wrong, and the same in place.

#include <algorithm>

#include "testbed/base/words.h"
#include "testbed/diagnose/read/read.h"

namespace meshbed::testbed::diagnose {
namespace {

class NcclTests final : public LineReader {
 public:
  const char* format() const override { return "nccl-tests"; }
  bool take(const Line& line, Case& found) override;
  void end(Case& found) override;

 private:
  double best_GBps_ = 0, largest_bytes_ = 0;
  Line best_;
};

bool is_type(const std::string& word) {
  for (const char* type : {"float", "half", "double", "int8", "int32", "int64", "uint8", "uint32", "uint64", "bfloat16",
                           "f8e4m3", "f8e5m2", "fp8_e4m3", "fp8_e5m2"}) {
    if (word == type) return true;
  }
  return false;
}

bool NcclTests::take(const Line& line, Case& found) {
  if (const auto average = between(line.text, "# Avg bus bandwidth", "")) {
    if (const auto value = leading_number(between(*average, ":", "").value_or(""))) {
      found.add_fact("average_busbw_GBps", *value, line);
    }
    return true;
  }
  if (const auto wrong = between(line.text, "# Out of bounds values", "")) {
    const double count = leading_number(between(*wrong, ":", "").value_or("")).value_or(0);
    found.add_fact("out_of_bounds_values", static_cast<std::int64_t>(std::clamp(count, 0.0, 1e15)), line);
    return true;
  }
  // "#  Rank  0 Group  0 Pid   4940 on ai-worker03 device  0 [0x61] NVIDIA L40"
  if (line.text.rfind("#", 0) == 0 && line.text.find(" Pid ") != std::string::npos &&
      line.text.find(" on ") != std::string::npos) {
    found.add_fact("rank_host", between(line.text, " on ", " ").value_or(""), line);
    if (line.text.find("GB10") != std::string::npos) found.is_spark = true;
    return true;
  }
  const std::vector<std::string> words = words_of(line.text);
  if (words.size() < 8 || !is_type(words[2])) return false;
  const auto bytes = leading_number(words[0]), busbw = leading_number(words[7]);
  if (!bytes || !busbw) return false;
  double best = *busbw;
  if (words.size() >= 12) best = std::max(best, leading_number(words[11]).value_or(0));
  if (*bytes >= largest_bytes_) {
    largest_bytes_ = *bytes;
    best_GBps_ = best;
    best_ = line;
  }
  return true;
}

void NcclTests::end(Case& found) {
  if (best_GBps_ > 0) found.add_fact("busbw_GBps", best_GBps_, best_);
}

}  // namespace

std::unique_ptr<LineReader> nccl_tests_reader() { return std::make_unique<NcclTests>(); }

}  // namespace meshbed::testbed::diagnose
