#include "testbed/result/trace_file.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "testbed/base/files.h"

namespace meshbed::testbed {

std::vector<std::string_view> split_line(std::string_view line) {
  std::vector<std::string_view> words;
  for (std::size_t from = 0;;) {
    const std::size_t to = line.find(',', from);
    words.push_back(line.substr(from, to - from));
    if (to == std::string_view::npos) return words;
    from = to + 1;
  }
}

namespace {

class TraceReader {
 public:
  TraceReader(const std::string& path, std::string_view header) : path_(path) {
    const auto names = split_line(header);
    for (std::size_t index = 0; index < names.size(); ++index) columns_.emplace(names[index], index);
    width_ = names.size();
  }

  void line(std::string_view text, int number) {
    words_ = split_line(text);
    number_ = number;
    if (words_.size() != width_) {
      throw std::runtime_error(
          fmt::format("{}:{}: {} columns where the header has {}", path_, number, words_.size(), width_));
    }
  }

  std::string_view text(const char* column) const {
    const auto found = columns_.find(column);
    if (found == columns_.end()) throw std::runtime_error(fmt::format("{}:1: there is no column {}", path_, column));
    return words_[found->second];
  }

  template <typename Number>
  void read(const char* column, Number& out) const {
    const std::string_view word = text(column);
    const auto [end, problem] = std::from_chars(word.data(), word.data() + word.size(), out);
    if (problem != std::errc() || end != word.data() + word.size()) {
      throw std::runtime_error(fmt::format("{}:{}: {}: \"{}\" is not such a number", path_, number_, column, word));
    }
  }

  /// Where there is such a column.
  template <typename Number>
  void read_if_there(const char* column, Number& out) const {
    if (columns_.find(column) != columns_.end()) read(column, out);
  }

 private:
  std::string path_;
  std::map<std::string, std::size_t, std::less<>> columns_;
  std::size_t width_ = 0;
  std::vector<std::string_view> words_;
  int number_ = 0;
};

}  // namespace

std::vector<TracedMessage> read_trace_file(const std::string& path) {
  constexpr std::uintmax_t kTraceMostBytes = std::uintmax_t{1} << 36U;
  std::error_code problem;
  if (std::filesystem::exists(path, problem)) require_readable_file(path, kTraceMostBytes);
  std::ifstream file(path, std::ios::binary);
  std::string line;
  if (!file || !std::getline(file, line)) {
    throw std::runtime_error(path + ": cannot be read; run it again without --no-trace");
  }
  TraceReader reader(path, line);
  std::vector<TracedMessage> messages;
  for (int number = 2; std::getline(file, line); ++number) {
    reader.line(line, number);
    TracedMessage& message = messages.emplace_back();
    reader.read_if_there("posted_ps", message.posted_ps);
    reader.read_if_there("started_ps", message.started_ps);
    reader.read_if_there("delivered_ps", message.delivered_ps);
    reader.read_if_there("completed_ps", message.completed_ps);
    reader.read("source_rank", message.source_rank);
    reader.read("destination_rank", message.destination_rank);
    message.source = reader.text("source");
    message.destination = reader.text("destination");
    message.source_gid = reader.text("source_gid");
    message.destination_gid = reader.text("destination_gid");
    reader.read("source_qp", message.source_qp);
    reader.read("destination_qp", message.destination_qp);
    reader.read("sequence", message.sequence);
    reader.read("opcode", message.opcode);
    reader.read("payload_bytes", message.payload_bytes);
    reader.read("status", message.status);
    reader.read("immediate", message.immediate);
  }
  return messages;
}

std::string opcode_name(std::uint32_t opcode) {
  // infiniband/verbs.h, enum ibv_wr_opcode.
  constexpr std::array<const char*, 7> kNames{"RDMA_WRITE",          "RDMA_WRITE_WITH_IMM", "SEND",
                                              "SEND_WITH_IMM",       "RDMA_READ",           "ATOMIC_CMP_AND_SWP",
                                              "ATOMIC_FETCH_AND_ADD"};
  return opcode < kNames.size() ? kNames[opcode] : fmt::format("opcode {}", opcode);
}

}  // namespace meshbed::testbed
