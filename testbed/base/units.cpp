#include "testbed/base/units.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <cstddef>
#include <limits>
#include <span>
#include <string_view>

namespace meshbed::testbed {
namespace {

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};

constexpr std::uint64_t kKilo = 1000;
constexpr std::uint64_t kMega = 1000 * kKilo;
constexpr std::uint64_t kGiga = 1000 * kMega;
constexpr std::uint64_t kTera = 1000 * kGiga;
constexpr std::uint64_t kTiB = 1024 * kGiB;

constexpr Unit kRates[] = {
    {"b/s", 1},        {"bit/s", 1},    {"bps", 1},        {"kb/s", kKilo},   {"kbit/s", kKilo},
    {"kbps", kKilo},   {"Mb/s", kMega}, {"Mbit/s", kMega}, {"Mbps", kMega},   {"Gb/s", kGiga},
    {"Gbit/s", kGiga}, {"Gbps", kGiga}, {"Tb/s", kTera},   {"Tbit/s", kTera}, {"Tbps", kTera},
};
constexpr Unit kTimes[] = {
    {"ps", 1},
    {"ns", kPicosecondsPerNanosecond},
    {"us", kPicosecondsPerMicrosecond},
    {"ms", kPicosecondsPerMillisecond},
    {"s", kPicosecondsPerSecond},
};
constexpr Unit kSizes[] = {
    {"", 1},       {"B", 1},    {"K", kKiB},   {"KiB", kKiB}, {"M", kMiB},
    {"MiB", kMiB}, {"G", kGiB}, {"GiB", kGiB}, {"T", kTiB},   {"TiB", kTiB},
};

struct Grammar {
  const char* what;
  const char* example;
  std::span<const Unit> units;
  std::uint64_t largest;
};

Error refuse_unit(std::string text) { return Error{ErrorCode::kInvalidArgument, Scope::kJob, std::move(text)}; }

std::string_view strip(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

/// NUMBER[.FRACTION][ ]UNIT. The number is kept as an integer of at most 18 digits over a power of ten, so that no
/// rounding happens before the unit is applied.
Result<std::uint64_t> parse_quantity(const std::string& text, const Grammar& grammar) {
  const auto expected = [&] {
    return fmt::format("expects a {} such as {}, got '{}'", grammar.what, grammar.example, text.substr(0, 40));
  };
  std::uint64_t mantissa = 0;
  std::uint64_t divisor = 1;
  int digits = 0;
  bool fraction = false;
  std::string_view rest = strip(text);
  for (; !rest.empty(); rest.remove_prefix(1)) {
    const char letter = rest.front();
    if (letter == '.' && !fraction && digits > 0) {
      fraction = true;
    } else if (letter >= '0' && letter <= '9' && digits < 18) {
      mantissa = mantissa * 10 + static_cast<std::uint64_t>(letter - '0');
      if (fraction) divisor *= 10;
      ++digits;
    } else {
      break;
    }
  }
  if (digits == 0 || (fraction && divisor == 1)) return refuse_unit(expected());
  rest = strip(rest);
  for (const auto& unit : grammar.units) {
    if (rest != unit.name) continue;
    const unsigned __int128 scaled = static_cast<unsigned __int128>(mantissa) * unit.factor;
    if (scaled / divisor > grammar.largest)
      return refuse_unit(fmt::format("'{}' is too large for a {}", text, grammar.what));
    if (scaled % divisor != 0) return refuse_unit(fmt::format("'{}' is not a whole number of the smallest unit", text));
    return static_cast<std::uint64_t>(scaled / divisor);
  }
  return refuse_unit(expected());
}

bool ends_with(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && std::string_view(text).substr(text.size() - end.size()) == end;
}

}  // namespace

Result<std::uint64_t> parse_rate_bps(const std::string& text) {
  if (ends_with(text, "B/s")) {
    return refuse_unit(
        fmt::format("'{}' is in bytes; a rate is in bits per second, such as \"100Gb/s\"", text.substr(0, 40)));
  }
  return parse_quantity(text, {"rate", "\"100Gb/s\"", kRates, std::numeric_limits<std::uint64_t>::max()});
}

Result<double> parse_percent(const std::string& text) {
  double value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view rest(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (problem != std::errc() || (rest != "%" && rest != " %")) {
    return refuse_unit(fmt::format("expects a percentage, as in \"1%\", got '{}'", text.substr(0, 40)));
  }
  return value;
}

Result<Picoseconds> parse_time_ps(const std::string& text) {
  const auto parsed = parse_quantity(
      text, {"time", "\"1us\"", kTimes, static_cast<std::uint64_t>(std::numeric_limits<Picoseconds>::max())});
  if (!parsed) return parsed.error();
  return static_cast<Picoseconds>(*parsed);
}

Result<std::uint64_t> parse_size_bytes(const std::string& text) {
  for (const char* decimal : {"kB", "KB", "MB", "GB", "TB"}) {
    if (ends_with(text, decimal)) {
      return refuse_unit(
          fmt::format("'{}' could be a power of 1000 or of 1024; write \"64M\" or \"64MiB\" for 64 * 1024 * 1024",
                      text.substr(0, 40)));
    }
  }
  return parse_quantity(text, {"size", "\"64M\"", kSizes, std::numeric_limits<std::uint64_t>::max()});
}

namespace {

/// The largest unit whose value is at least 1, at most three decimals.
std::string scaled_text(std::uint64_t value, std::span<const Unit> units) {
  Unit best = units.front();
  for (const auto& unit : units) {
    if (unit.factor <= value && unit.factor >= best.factor) best = unit;
  }
  if (value % best.factor == 0) return fmt::format("{} {}", value / best.factor, best.name);
  return fmt::format("{:.4g} {}", static_cast<double>(value) / static_cast<double>(best.factor), best.name);
}

}  // namespace

std::string rate_text(std::uint64_t rate_bps) {
  static constexpr Unit kShown[] = {{"b/s", 1}, {"kb/s", kKilo}, {"Mb/s", kMega}, {"Gb/s", kGiga}};
  return scaled_text(rate_bps, kShown);
}

std::string size_text(std::uint64_t size_bytes) {
  static constexpr Unit kShown[] = {{"B", 1}, {"KiB", kKiB}, {"MiB", kMiB}, {"GiB", kGiB}, {"TiB", kTiB}};
  return scaled_text(size_bytes, kShown);
}

std::string time_text(Picoseconds time_ps) { return scaled_text(static_cast<std::uint64_t>(time_ps), kTimes); }

std::string duration_text(Picoseconds time_ps) {
  const auto time = static_cast<double>(time_ps);
  if (time_ps < kPicosecondsPerMicrosecond) return fmt::format("{:.3f} ns", time / 1e3);
  if (time_ps < kPicosecondsPerMillisecond) return fmt::format("{:.3f} us", time / 1e6);
  if (time_ps < kPicosecondsPerSecond) return fmt::format("{:.3f} ms", time / 1e9);
  return fmt::format("{:.3f} s", time / 1e12);
}

}  // namespace meshbed::testbed
