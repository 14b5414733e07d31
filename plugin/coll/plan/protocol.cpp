#include "plugin/coll/plan/protocol.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "plugin/base/prng.h"

namespace meshbed::coll {
namespace {

constexpr std::uint64_t kLlHalf = 4;  // bytes of data before each flag

struct LlLine {
  std::uint32_t data1, flag1, data2, flag2;
};
struct Ll128Line {
  std::array<char, 120> data;
  std::uint64_t flag;
};
static_assert(sizeof(LlLine) == format_of(Protocol::kLl).line_bytes);
static_assert(sizeof(Ll128Line) == format_of(Protocol::kLl128).line_bytes);

/// `work` for each line: its number, and how many bytes of data it has.
template <typename Work>
void for_each_line(std::uint64_t size_bytes, std::uint64_t data_bytes, const Work& work) {
  for (std::uint64_t at = 0; at < size_bytes; at += data_bytes) {
    work(at / data_bytes, std::min(data_bytes, size_bytes - at));
  }
}

}  // namespace

const char* name_of(Protocol protocol) {
  switch (protocol) {
    case Protocol::kSimple:
      return "simple";
    case Protocol::kLl:
      return "ll";
    case Protocol::kLl128:
      return "ll128";
  }
  return "unknown";
}

std::optional<Protocol> parse_protocol(std::string_view name) {
  for (int each = 0; each < kProtocols; ++each) {
    if (name == name_of(static_cast<Protocol>(each))) return static_cast<Protocol>(each);
  }
  return std::nullopt;
}

std::vector<std::string> protocol_names() {
  std::vector<std::string> names;
  for (int each = 0; each < kProtocols; ++each) names.emplace_back(name_of(static_cast<Protocol>(each)));
  return names;
}

std::uint64_t flag_of(std::uint64_t number, std::uint64_t size_bytes) { return mix64(mix64(number) ^ size_bytes); }

void write_lines(Protocol protocol, std::uint64_t flag, const void* data, std::uint64_t size_bytes, void* lines) {
  const char* from = static_cast<const char*>(data);
  if (protocol == Protocol::kLl) {
    const auto small = static_cast<std::uint32_t>(flag);
    auto* to = static_cast<LlLine*>(lines);
    for_each_line(size_bytes, 2 * kLlHalf, [&](std::uint64_t number, std::uint64_t bytes) {
      std::array<std::uint32_t, 2> words{};
      std::memcpy(words.data(), from + number * 2 * kLlHalf, bytes);
      to[number] = {words[0], small, words[1], small};
    });
    return;
  }
  auto* to = static_cast<Ll128Line*>(lines);
  for_each_line(size_bytes, sizeof to->data, [&](std::uint64_t number, std::uint64_t bytes) {
    Ll128Line& line = to[number];
    std::memcpy(line.data.data(), from + number * sizeof line.data, bytes);
    std::memset(line.data.data() + bytes, 0, sizeof line.data - bytes);
    line.flag = flag;
  });
}

bool read_lines(Protocol protocol, std::uint64_t flag, const void* lines, void* data, std::uint64_t size_bytes) {
  const std::uint64_t count = lined_bytes(protocol, size_bytes) / format_of(protocol).line_bytes;
  char* to = static_cast<char*>(data);
  if (protocol == Protocol::kLl) {
    const auto small = static_cast<std::uint32_t>(flag);
    const auto* from = static_cast<const LlLine*>(lines);
    const bool all =
        std::all_of(from, from + count, [&](const LlLine& line) { return line.flag1 == small && line.flag2 == small; });
    if (!all) return false;
    for_each_line(size_bytes, 2 * kLlHalf, [&](std::uint64_t number, std::uint64_t bytes) {
      const std::array<std::uint32_t, 2> words{from[number].data1, from[number].data2};
      std::memcpy(to + number * 2 * kLlHalf, words.data(), bytes);
    });
    return true;
  }
  const auto* from = static_cast<const Ll128Line*>(lines);
  if (!std::all_of(from, from + count, [&](const Ll128Line& line) { return line.flag == flag; })) return false;
  for_each_line(size_bytes, sizeof from->data, [&](std::uint64_t number, std::uint64_t bytes) {
    std::memcpy(to + number * sizeof from->data, from[number].data.data(), bytes);
  });
  return true;
}

}  // namespace meshbed::coll
