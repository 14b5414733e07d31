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

/// Without what a launcher puts before each line: mpirun --tag-output "[1,0]<stdout>:", srun -l "0: ".
std::string without_tag(const std::string& text) {
  const std::size_t colon = text.find(':'), begin = text.find_first_not_of(' ');
  if (colon == std::string::npos || begin >= colon) return text;
  const std::string tag = text.substr(begin, colon - begin);
  const bool is_mpi = tag[0] == '[' && tag.back() == '>' && tag.find("]<std") != std::string::npos;
  return is_mpi || is_digits(tag) ? text.substr(colon + 1) : text;
}

bool is_type(const std::string& word) {
  for (const char* type : {"float", "half", "double", "int8", "int32", "int64", "uint8", "uint32", "uint64", "bfloat16",
                           "f8e4m3", "f8e5m2", "fp8_e4m3", "fp8_e5m2"}) {
    if (word == type) return true;
  }
  return false;
}

bool NcclTests::take(const Line& line, Case& found) {
  const std::string text = without_tag(line.text);
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
  // "#  Rank  0 Group  0 Pid   4940 on  cl4-gpu03 device  0 [0x61] NVIDIA L40": the host stands at the right
  const std::size_t begin = text.find_first_not_of(' ');
  if (begin != std::string::npos && text[begin] == '#' && text.find(" Pid ") != std::string::npos) {
    const std::vector<std::string> behind = words_of(between(text, " on ", "").value_or(""));
    if (behind.empty()) return false;
    found.add_fact("rank_host", behind.front(), line);
    if (line.text.find("GB10") != std::string::npos) found.is_spark = true;
    return true;
  }
  const std::vector<std::string> words = words_of(text);
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
