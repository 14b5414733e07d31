#include "sim/replay/recorded_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <istream>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

namespace meshbed::sim {
namespace {

constexpr std::string_view kHeading = "meshbed-schedule 1";
constexpr std::uint64_t kRanksMost = 1U << 20U, kStreamsMost = 1U << 24U, kBytesMost = std::uint64_t{1} << 32U;
constexpr std::uint64_t kReadsMost = 255, kMtuMost = 65536;
constexpr std::uint64_t kDelayMost_ps = std::uint64_t{100'000} * kPicosecondsPerSecond;
constexpr std::uint64_t kAny = std::numeric_limits<std::uint64_t>::max();

char letter_of(SignalKind kind) {
  constexpr std::string_view kLetters = "acbe";
  return kLetters[static_cast<std::size_t>(kind)];
}

/// The words of one line, and where it is.
class Line {
 public:
  Line(std::string_view text, std::uint64_t number) : rest_(text), number_(number) {}

  std::string_view word() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size()));
    const std::string_view found = rest_.substr(0, rest_.find(' '));
    rest_.remove_prefix(found.size());
    return found;
  }
  std::string_view rest() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size()));
    return std::exchange(rest_, {});
  }
  bool has_more() const { return rest_.find_first_not_of(' ') != std::string_view::npos; }

  /// The next word as a number from `least` to `most`; otherwise the line has failed.
  std::uint64_t number(const char* what, std::uint64_t least, std::uint64_t most) {
    return number_in(word(), what, least, most);
  }
  std::uint64_t number_in(std::string_view text, const char* what, std::uint64_t least, std::uint64_t most) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc{} && end == text.data() + text.size() && value >= least && value <= most) return value;
    fail(fmt::format("\"{}\" is no {} (a number from {} to {})", text, what, least, most));
    return least;
  }

  void fail(const std::string& what) {
    if (!error_) error_ = Error{ErrorCode::kInvalidArgument, Scope::kJob, fmt::format("line {}: {}", number_, what)};
  }
  const std::optional<Error>& error() const { return error_; }

 private:
  std::string_view rest_;
  std::uint64_t number_;
  std::optional<Error> error_;
};

void parse_stream(Line& line, RecordedSchedule& schedule) {
  if (line.number("number of a stream", 0, kStreamsMost) != schedule.streams.size()) {
    line.fail(fmt::format("streams are numbered in order, and {} comes next", schedule.streams.size()));
  }
  ScheduleStream stream;
  const auto end = [&line](int& rank, std::string& port) {
    rank = static_cast<int>(line.number("rank", 0, kRanksMost - 1));
    port = line.word();
    if (port.find('/') == std::string::npos) line.fail(fmt::format("\"{}\" is no port (node0/rocep1s0f0)", port));
  };
  end(stream.source_rank, stream.source_port);
  end(stream.destination_rank, stream.destination_port);
  stream.flow = line.number("flow", 0, kAny);
  stream.reads_most = static_cast<std::uint32_t>(line.number("number of reads", 0, kReadsMost));
  stream.mtu_bytes = static_cast<std::uint32_t>(line.number("size of a packet", 1, kMtuMost));
  schedule.ranks = std::max({schedule.ranks, stream.source_rank + 1, stream.destination_rank + 1});
  schedule.streams.push_back(std::move(stream));
}

void parse_wait(Line& line, std::string_view word, RecordedSchedule& schedule) {
  const std::size_t colon = word.find(':');
  const std::size_t kind = std::string_view("acbe").find(word.front());
  if (colon == std::string_view::npos || kind == std::string_view::npos) {
    return line.fail(fmt::format("\"{}\" is nothing to wait for (a3:12, c3:12, b1:2 or e1:2)", word));
  }
  ScheduleWait wait;
  wait.signal.kind = static_cast<SignalKind>(kind);
  const bool is_stream = wait.signal.kind == SignalKind::kArrival || wait.signal.kind == SignalKind::kCompletion;
  const std::uint64_t most = is_stream ? schedule.streams.size() : kRanksMost;
  if (most == 0) return line.fail(fmt::format("\"{}\" waits for a stream, and there is none", word));
  wait.signal.index =
      static_cast<std::uint32_t>(line.number_in(word.substr(1, colon - 1), is_stream ? "stream" : "rank", 0, most - 1));
  wait.count = line.number_in(word.substr(colon + 1), "count", 1, kAny);
  schedule.waits.push_back(wait);
}

void parse_item(Line& line, ItemKind kind, RecordedSchedule& schedule, bool is_fenced = false) {
  ScheduleItem item{.kind = kind};
  if (kind == ItemKind::kPost) {
    if (schedule.streams.empty()) return line.fail("a message without a stream before it");
    item.index = static_cast<std::uint32_t>(line.number("stream", 0, schedule.streams.size() - 1));
    item.payload_bytes = line.number("payload", 0, kBytesMost);
    item.wire_bytes = line.number("number of bytes on the wire", 1, kBytesMost);
    item.response_bytes = line.number("number of bytes of a response", 0, kBytesMost);
    item.is_fenced = is_fenced;
    if (item.response_bytes > 0 && schedule.streams[item.index].reads_most == 0) {
      line.fail(fmt::format("a response on stream {}, which has none", item.index));
    }
  } else {
    item.index = static_cast<std::uint32_t>(line.number("rank", 0, kRanksMost - 1));
    schedule.ranks = std::max(schedule.ranks, static_cast<int>(item.index) + 1);
  }
  item.delay_ps = static_cast<Picoseconds>(line.number("delay", 0, kDelayMost_ps));
  item.first_wait = static_cast<std::uint32_t>(schedule.waits.size());
  while (line.has_more()) parse_wait(line, line.word(), schedule);
  item.waits = static_cast<std::uint32_t>(schedule.waits.size()) - item.first_wait;
  schedule.items.push_back(item);
}

constexpr std::array<std::string_view, 4> kHeadings{"scenario", "workload", "bytes", "warmup"};

void parse_heading(Line& line, std::string_view word, RecordedSchedule& schedule) {
  if (word == "scenario") {
    schedule.scenario = line.rest();
  } else if (word == "workload") {
    schedule.workload = line.rest();
  } else if (word == "bytes") {
    schedule.bytes = line.number("number of bytes", 0, kAny);
  } else {
    schedule.warmup = static_cast<int>(line.number("number of iterations", 0, kRanksMost));
  }
}

/// What no run has; empty: nothing.
std::string contradiction(const RecordedSchedule& schedule, const std::array<int, kHeadings.size()>& headings) {
  for (std::size_t at = 0; at < kHeadings.size(); ++at) {
    if (headings[at] == 0) return fmt::format("it has no {}", kHeadings[at]);
  }
  std::map<std::uint32_t, std::pair<int, int>> calls;  // by rank: begun and ended
  bool has_messages = false;
  for (const ScheduleItem& item : schedule.items) {
    has_messages = has_messages || item.kind == ItemKind::kPost;
    if (item.kind == ItemKind::kBegin) ++calls[item.index].first;
    if (item.kind == ItemKind::kEnd) ++calls[item.index].second;
  }
  if (!has_messages) return "it has no message";
  int most = 0;
  for (const auto& [rank, count] : calls) {
    if (count.first != count.second) {
      return fmt::format("rank {} begins {} calls and ends {}", rank, count.first, count.second);
    }
    most = std::max(most, count.first);
  }
  if (most > 0 && schedule.warmup >= most)
    return fmt::format("{} calls, of which {} are warm-up", most, schedule.warmup);
  return "";
}

}  // namespace

std::string text_of(const ScheduleWait& wait) {
  return fmt::format("{}{}:{}", letter_of(wait.signal.kind), wait.signal.index, wait.count);
}

std::string text_of(const RecordedSchedule& schedule) {
  fmt::memory_buffer text;
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "{}\nscenario {}\nworkload {}\nbytes {}\nwarmup {}\n", kHeading, schedule.scenario,
                 schedule.workload, schedule.bytes, schedule.warmup);
  for (std::size_t number = 0; number < schedule.streams.size(); ++number) {
    const ScheduleStream& stream = schedule.streams[number];
    fmt::format_to(out, "stream {} {} {} {} {} {} {} {}\n", number, stream.source_rank, stream.source_port,
                   stream.destination_rank, stream.destination_port, stream.flow, stream.reads_most, stream.mtu_bytes);
  }
  for (const ScheduleItem& item : schedule.items) {
    if (item.kind == ItemKind::kPost) {
      fmt::format_to(out, "{} {} {} {} {} {}", item.is_fenced ? "fenced" : "post", item.index, item.payload_bytes,
                     item.wire_bytes, item.response_bytes, item.delay_ps);
    } else {
      fmt::format_to(out, "{} {} {}", item.kind == ItemKind::kBegin ? "begin" : "end", item.index, item.delay_ps);
    }
    for (std::uint32_t at = item.first_wait; at < item.first_wait + item.waits; ++at) {
      fmt::format_to(out, " {}", text_of(schedule.waits[at]));
    }
    fmt::format_to(out, "\n");
  }
  fmt::format_to(out, "items {}\n", schedule.items.size());
  return fmt::to_string(text);
}

Result<RecordedSchedule> parse_schedule(std::istream& text) {
  RecordedSchedule schedule;
  std::string read;
  std::array<int, kHeadings.size()> headings{};
  std::uint64_t number = 0;
  bool is_whole = false;
  while (std::getline(text, read)) {
    if (!read.empty() && read.back() == '\r') read.pop_back();
    Line line(read, ++number);
    if (number == 1) {
      if (read != kHeading) line.fail(fmt::format("a schedule begins with \"{}\"", kHeading));
    } else if (is_whole) {
      line.fail("nothing comes after the number of items");
    } else if (const std::string_view word = line.word(); word == "stream") {
      parse_stream(line, schedule);
    } else if (word == "post") {
      parse_item(line, ItemKind::kPost, schedule);
    } else if (word == "fenced") {
      parse_item(line, ItemKind::kPost, schedule, true);
    } else if (word == "begin") {
      parse_item(line, ItemKind::kBegin, schedule);
    } else if (word == "end") {
      parse_item(line, ItemKind::kEnd, schedule);
    } else if (const auto heading = std::find(kHeadings.begin(), kHeadings.end(), word); heading != kHeadings.end()) {
      if (headings[static_cast<std::size_t>(heading - kHeadings.begin())]++ > 0)
        line.fail(fmt::format("a second {}", word));
      parse_heading(line, word, schedule);
    } else if (word == "items") {
      is_whole = true;
      if (line.number("number of items", 0, kAny) != schedule.items.size()) {
        line.fail(fmt::format("it has {} items", schedule.items.size()));
      }
    } else {
      line.fail(fmt::format("\"{}\" is not known", word));
    }
    if (line.has_more() && !line.error() && number > 1) line.fail(fmt::format("\"{}\" is too much", line.rest()));
    if (line.error()) return *line.error();
  }
  if (!is_whole) {
    return Error{ErrorCode::kInvalidArgument, Scope::kJob,
                 fmt::format("after line {}: it has no last line (items N); it was cut off", number)};
  }
  if (const std::string wrong = contradiction(schedule, headings); !wrong.empty()) {
    return Error{ErrorCode::kInvalidArgument, Scope::kJob, fmt::format("line {}: {}", number, wrong)};
  }
  return schedule;
}

}  // namespace meshbed::sim
