// What the interpreter does itself for a kernel: vprintf, __assertfail, malloc and free. CUDA C++ Programming Guide,
// "Formatted Output" and "Assertion".
//
// vprintf(format, buffer): arguments lie in the buffer as C lays them out, floats as doubles.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "sim/cuda/ptx/access.h"
#include "sim/cuda/ptx/decode.h"
#include "sim/cuda/ptx/lanes.h"

namespace meshbed::sim::ptx {

namespace {

enum class Builtin : std::uint8_t { kPrint, kAssert, kAllocate, kRelease };
constexpr std::size_t kLongestString = 4096;
constexpr std::size_t kPrintedAtOnce = std::size_t{1} << 20U;
constexpr std::string_view kConversions = "diouxXcsfFeEgGaAp";

/// A string of the generic space; false: a fault.
bool read_string(Warp& warp, const Instruction& in, std::uint32_t lane, std::uint64_t address, std::string& text) {
  for (text.clear(); text.size() < kLongestString; ++address) {
    const std::byte* at = resolve_one(warp, in, lane, Space::kGeneric, address, 1, false);
    if (at == nullptr) return false;
    if (*at == std::byte{0}) return true;
    text.push_back(static_cast<char>(*at));
  }
  return true;
}

class Printer {
 public:
  Printer(Warp& warp, const Instruction& in, std::uint32_t lane, std::uint64_t buffer)
      : warp_(warp), in_(in), lane_(lane), at_(buffer) {}

  bool print(const std::string& format, std::string& out) {
    for (std::size_t at = 0; at < format.size(); ++at) {
      if (format[at] != '%') {
        out.push_back(format[at]);
        continue;
      }
      if (at + 1 < format.size() && format[at + 1] == '%') {
        out.push_back('%');
        ++at;
        continue;
      }
      if (!conversion(format, at, out)) return false;
    }
    return true;
  }

 private:
  bool word(std::uint32_t bytes, std::uint64_t& value) {
    at_ = rounded_up(at_, bytes);
    const std::byte* from = resolve_one(warp_, in_, lane_, Space::kGeneric, at_, bytes, false);
    if (from == nullptr) return false;
    value = 0;
    std::memcpy(&value, from, bytes);
    at_ += bytes;
    return true;
  }

  /// One %..., at its percent sign; leaves `at` at its last character. An unknown one is printed as it stands.
  bool conversion(const std::string& format, std::size_t& at, std::string& out) {
    std::string spec = "%";
    std::size_t now = at + 1;
    int longs = 0;
    bool size = false;
    while (now < format.size()) {
      const char c = format[now];
      if (kConversions.find(c) != std::string_view::npos) break;
      if (c == '*') {
        std::uint64_t value = 0;
        if (!word(4, value)) return false;
        spec += std::to_string(std::clamp(static_cast<std::int32_t>(value), -1000, 1000));
      } else if (c == 'l' || c == 'j') {
        longs += c == 'j' ? 2 : 1;
      } else if (c == 'z' || c == 't') {
        size = true;
      } else if (c == 'h') {
        spec += c;
      } else if (std::strchr("-+ #0123456789.", c) != nullptr && spec.size() < 16) {
        spec += c;
      } else {
        break;
      }
      ++now;
    }
    if (now >= format.size() || kConversions.find(format[now]) == std::string_view::npos) {
      out.push_back('%');
      return true;
    }
    at = now;
    return argument(spec, format[now], longs > 0 || size, out);
  }

  bool argument(std::string spec, char kind, bool wide, std::string& out) {
    std::uint64_t value = 0;
    std::vector<char> text(2048);
    int length = 0;
    const bool number = std::string_view("fFeEgGaA").find(kind) != std::string_view::npos;
    if (kind == 's') {
      std::string string;
      if (!word(8, value)) return false;
      if (value == 0)
        string = "(null)";
      else if (!read_string(warp_, in_, lane_, value, string))
        return false;
      text.resize(string.size() + 2048);
      length = formatted(text, (spec + 's').c_str(), string.c_str());
    } else if (number) {
      if (!word(8, value)) return false;
      length = formatted(text, (spec + kind).c_str(), std::bit_cast<double>(value));
    } else if (kind == 'p') {
      if (!word(8, value)) return false;
      length = formatted(text, (spec + 'p').c_str(), reinterpret_cast<void*>(value));
    } else if (wide) {
      if (!word(8, value)) return false;
      length = formatted(text, (spec + "ll" + kind).c_str(), static_cast<long long>(value));
    } else {
      if (!word(4, value)) return false;
      length = formatted(text, (spec + kind).c_str(), static_cast<std::int32_t>(value));
    }
    if (length > 0) out.append(text.data(), std::min(static_cast<std::size_t>(length), text.size() - 1));
    return true;
  }

  // The format was put together above: flags, width, precision and one conversion that fits the argument.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-security"
  template <typename T>
  static int formatted(std::vector<char>& text, const char* spec, T value) {
    return std::snprintf(text.data(), text.size(), spec, value);
  }
#pragma GCC diagnostic pop

  Warp& warp_;
  const Instruction& in_;
  std::uint32_t lane_;
  std::uint64_t at_;
};

void print_lane(Warp& warp, const Instruction& in, std::uint32_t lane, std::uint64_t format, std::uint64_t buffer) {
  std::string text;
  if (!read_string(warp, in, lane, format, text)) return;
  std::string out;
  if (!Printer(warp, in, lane, buffer).print(text, out)) return;
  Grid& grid = *warp.grid;
  grid.printed += out;
  ++grid.changes;
  if (grid.printed.size() < kPrintedAtOnce) return;
  if (grid.request.print) grid.request.print(grid.printed);
  grid.printed.clear();
}

}  // namespace

int builtin_named(std::string_view name) {
  static constexpr std::string_view kNames[] = {"vprintf", "__assertfail", "malloc", "free"};
  const auto found = std::find(std::begin(kNames), std::end(kNames), name);
  return found == std::end(kNames) ? -1 : static_cast<int>(found - std::begin(kNames));
}

void call_builtin(Warp& warp, const Instruction& in, const Call& call, const Function& function, std::uint32_t lanes) {
  const auto argument = [&](std::size_t index, std::uint32_t lane) -> std::uint64_t {
    if (index >= call.arguments.size()) return 0;
    const CallValue& value = call.arguments[index];
    std::uint64_t made = 0;
    std::memcpy(&made, call_value_at(warp, *warp.frame, value, lane), std::min(value.bytes, 8U));
    return made;
  };
  const auto answer = [&](std::uint32_t lane, std::uint64_t result) {
    if (call.results.empty()) return;
    const CallValue& value = call.results[0];
    std::memcpy(call_value_at(warp, *warp.frame, value, lane), &result, std::min(value.bytes, 8U));
  };
  const Grid& grid = *warp.grid;
  for (std::uint32_t rest = lanes; rest != 0 && !grid.fault; rest &= rest - 1) {
    const auto lane = static_cast<std::uint32_t>(std::countr_zero(rest));
    switch (static_cast<Builtin>(function.builtin)) {
      case Builtin::kPrint:
        print_lane(warp, in, lane, argument(0, lane), argument(1, lane));
        answer(lane, 1);
        break;
      case Builtin::kAssert: {
        std::string condition, file, name;
        if (!read_string(warp, in, lane, argument(0, lane), condition) ||
            !read_string(warp, in, lane, argument(1, lane), file) ||
            !read_string(warp, in, lane, argument(3, lane), name)) {
          return;
        }
        const auto& size = grid.request.block;
        const auto& block = warp.block->at;
        const std::uint32_t thread = warp.index * kLanes + lane;
        char text[256];
        std::snprintf(text, sizeof text, ": block: [%u,%u,%u], thread: [%u,%u,%u] Assertion `", block[0], block[1],
                      block[2], thread % size[0], thread / size[0] % size[1], thread / size[0] / size[1]);
        fail(warp, in, lane, Fault::Kind::kAssert,
             file + ":" + std::to_string(argument(2, lane)) + ": " + name + text + condition + "` failed.");
        return;
      }
      case Builtin::kAllocate:
        if (!grid.request.allocate) {
          fail(warp, in, lane, Fault::Kind::kUnsupported, "malloc: the device has no heap");
          return;
        }
        answer(lane, grid.request.allocate(argument(0, lane)));
        break;
      case Builtin::kRelease:
        if (grid.request.release && argument(0, lane) != 0) grid.request.release(argument(0, lane));
        break;
    }
  }
}

}  // namespace meshbed::sim::ptx
