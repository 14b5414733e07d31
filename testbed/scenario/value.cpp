#include "testbed/scenario/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <string_view>

#include "testbed/base/closest_name.h"
#include "testbed/base/units.h"

namespace meshbed::testbed {
namespace {

/// "text 'abc'", "integer 5", "a list": what was found, short enough for one line.
std::string found_text(const toml::node& node) {
  if (const auto* text = node.as_string()) return fmt::format("text '{}'", text->get().substr(0, 40));
  if (const auto* integer = node.as_integer()) return fmt::format("integer {}", integer->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("number {}", number->get());
  if (const auto* boolean = node.as_boolean()) return boolean->get() ? "true" : "false";
  if (node.is_table()) return "a table";
  if (node.is_array()) return "a list";
  return "a date or time";
}

/// A port's rate: from a serial line to far beyond any port; keeps wire times within 64 bits of picoseconds.
constexpr std::uint64_t kRateMinBps = 1'000;
constexpr std::uint64_t kRateMaxBps = 100'000'000'000'000;
/// More than a day: dozens of such times, one behind the other, are within 64 bits of picoseconds.
constexpr Picoseconds kTimeMaxPs = 100'000 * kPicosecondsPerSecond;
constexpr std::uint64_t kSizeMaxBytes = 1024 * kGiB;  // NCCL_MAX_NET_SIZE_BYTES

}  // namespace

std::optional<std::string> name_problem(const std::string& text) {
  if (text.empty()) return "is empty";
  if (text.size() > 63) return "is longer than 63 characters";
  if (text.front() == '.' || text.front() == '-') return "starts with '.' or '-'";
  for (const char letter : text) {
    const bool plain = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                       (letter >= '0' && letter <= '9') || std::string_view("_.:+-").find(letter) != std::string::npos;
    if (!plain) return "has a character that is not a letter, a digit or one of _ . : + -";
  }
  return std::nullopt;
}

void Value::refuse(const std::string& message) const {
  diagnostics_.add(node_.source(), fmt::format("{}: {}", name_, message));
}

void Value::refuse_type(const char* expected) const {
  refuse(fmt::format("expects {}, got {}", expected, found_text(node_)));
}

std::optional<std::string> Value::read_text(const char* expected) const {
  const auto* text = node_.as_string();
  if (text == nullptr) {
    refuse_type(expected);
    return std::nullopt;
  }
  return text->get();
}

std::optional<std::int64_t> Value::read_integer(IntegerRange range) const {
  const auto* integer = node_.as_integer();
  if (integer == nullptr) {
    refuse_type("an integer");
    return std::nullopt;
  }
  if (integer->get() < range.min || integer->get() > range.max) {
    refuse(fmt::format("{} is out of range; accepted: {} to {}", integer->get(), range.min, range.max));
    return std::nullopt;
  }
  return integer->get();
}

void Value::text(std::string& out) const {
  if (auto value = read_text("text")) out = std::move(*value);
}

void Value::text(std::optional<std::string>& out) const {
  if (auto value = read_text("text")) out = std::move(value);
}

void Value::name(std::string& out) const {
  auto value = read_text("text");
  if (!value) return;
  if (const auto problem = name_problem(*value)) return refuse(fmt::format("'{}' {}", value->substr(0, 64), *problem));
  out = std::move(*value);
}

void Value::choice(std::string& out, const std::vector<std::string>& accepted) const {
  auto value = read_text("text");
  if (!value) return;
  if (std::find(accepted.begin(), accepted.end(), *value) == accepted.end()) {
    const std::string close = closest_name(*value, accepted);
    return refuse(fmt::format("'{}' is unknown{}; accepted: {}", value->substr(0, 40),
                              close.empty() ? "" : fmt::format(" (did you mean '{}'?)", close), list_names(accepted)));
  }
  out = std::move(*value);
}

void Value::boolean(bool& out) const {
  if (const auto* value = node_.as_boolean()) {
    out = value->get();
  } else {
    refuse_type("true or false");
  }
}

void Value::number(std::optional<double>& out, NumberRange range) const {
  const auto value = node_.is_number() ? node_.value<double>() : std::nullopt;
  if (!value) return refuse_type("a number");
  // Also false for NaN.
  if (!(*value >= range.min && *value <= range.max)) {
    return refuse(fmt::format("{} is out of range; accepted: {} to {}", *value, range.min, range.max));
  }
  out = *value;
}

void Value::numbers(std::vector<double>& out, NumberRange range) const {
  const toml::array* array = node_.as_array();
  if (array == nullptr) return refuse_type("a list of numbers");
  out.clear();
  for (const auto& element : *array) {
    std::optional<double> value;
    Value(element, name_, diagnostics_).number(value, range);
    if (value) out.push_back(*value);
  }
}

void Value::rate(std::uint64_t& out) const {
  std::uint64_t rate_bps = 0;
  if (const auto* integer = node_.as_integer()) {
    rate_bps = integer->get() < 0 ? 0 : static_cast<std::uint64_t>(integer->get());
  } else if (const auto* text = node_.as_string()) {
    const auto parsed = parse_rate_bps(text->get());
    if (!parsed) return refuse(parsed.error().text);
    rate_bps = *parsed;
  } else {
    return refuse_type("a rate such as \"100Gb/s\" or an integer (bits per second)");
  }
  if (rate_bps < kRateMinBps || rate_bps > kRateMaxBps) {
    return refuse(fmt::format("{} is out of range; accepted: {} to {}", rate_text(rate_bps), rate_text(kRateMinBps),
                              rate_text(kRateMaxBps)));
  }
  out = rate_bps;
}

void Value::time(Picoseconds& out) const {
  const auto value = read_text("a time such as \"1us\"");
  if (!value) return;
  const auto parsed = parse_time_ps(*value);
  if (!parsed) return refuse(parsed.error().text);
  if (*parsed > kTimeMaxPs)
    return refuse(fmt::format("'{}' is out of range; accepted: up to 100000s", value->substr(0, 40)));
  out = *parsed;
}

void Value::size(std::uint64_t& out) const {
  std::uint64_t size_bytes = 0;
  if (const auto* integer = node_.as_integer()) {
    if (integer->get() < 0) return refuse("a size cannot be negative");
    size_bytes = static_cast<std::uint64_t>(integer->get());
  } else if (const auto* text = node_.as_string()) {
    const auto parsed = parse_size_bytes(text->get());
    if (!parsed) return refuse(parsed.error().text);
    size_bytes = *parsed;
  } else {
    return refuse_type("a size such as \"64M\" or an integer (bytes)");
  }
  if (size_bytes > kSizeMaxBytes) return refuse("out of range; accepted: up to 1T");
  out = size_bytes;
}

void Value::prefix(models::IpPrefix& out) const {
  const auto value = read_text("ADDRESS/LENGTH");
  if (!value) return;
  const auto parsed = models::read_prefix(*value);
  if (!parsed) return refuse(parsed.error().text);
  out = *parsed;
}

void Value::address(models::IpAddress& out) const {
  const auto value = read_text("an IP address");
  if (!value) return;
  const auto parsed = models::parse_ip(*value);
  if (!parsed) return refuse(parsed.error().text);
  out = *parsed;
}

void Value::amount(double& out, AmountUnit& unit) const {
  if (const auto* text = node_.as_string()) {
    if (const auto percent = parse_percent(text->get())) {
      out = *percent / 100;
      unit = AmountUnit::kFraction;
    } else if (const auto rate_bps = parse_rate_bps(text->get())) {
      out = static_cast<double>(*rate_bps);
      unit = AmountUnit::kRate;
    } else if (const auto time_ps = parse_time_ps(text->get())) {
      if (*time_ps > kTimeMaxPs) {
        return refuse(fmt::format("'{}' is out of range; accepted: up to 100000s", text->get().substr(0, 40)));
      }
      out = static_cast<double>(*time_ps);
      unit = AmountUnit::kTime;
    } else {
      refuse(fmt::format("expects a fraction, a percentage, a time or a rate, got '{}'", text->get().substr(0, 40)));
    }
    return;
  }
  unit = AmountUnit::kFraction;
  std::optional<double> value;
  number(value, {0.0, 1e18});
  if (value) out = *value;
}

void Value::addresses(std::vector<Located<models::IpPrefix>>& out) const {
  const toml::array* array = node_.as_array();
  if (array == nullptr) return refuse_type("a list of ADDRESS/LENGTH");
  out.clear();
  for (const auto& element : *array) {
    const std::size_t errors_before = diagnostics_.count();
    Located<models::IpPrefix> address{{}, element.source()};
    Value(element, name_, diagnostics_).prefix(address.value);
    if (diagnostics_.count() == errors_before) out.push_back(std::move(address));
  }
}

void Value::texts(std::vector<Located<std::string>>& out) const {
  const toml::array* array = node_.as_array();
  if (array == nullptr) return refuse_type("a list of texts");
  out.clear();
  for (const auto& element : *array) {
    if (auto value = Value(element, name_, diagnostics_).read_text("text")) {
      out.push_back({std::move(*value), element.source()});
    }
  }
}

void Value::name_pairs(std::vector<std::pair<std::string, std::string>>& out) const {
  const toml::array* array = node_.as_array();
  if (array == nullptr) return refuse_type("a list of pairs, as in [[\"node0\", \"node2\"]]");
  for (const auto& element : *array) {
    std::vector<Located<std::string>> names;
    if (element.is_array()) Value(element, name_, diagnostics_).texts(names);
    if (names.size() != 2) {
      Value(element, name_, diagnostics_).refuse("expects pairs of two node names, as in [[\"node0\", \"node2\"]]");
    } else {
      out.emplace_back(names[0].value, names[1].value);
    }
  }
}

void Value::environment(Environment& out) const {
  const toml::table* table = node_.as_table();
  if (table == nullptr) return refuse_type("a table of variables");
  for (const auto& [key, node] : *table) {
    const std::string variable(key.str());
    const auto usable = [](unsigned char letter) { return letter > 0x20 && letter < 0x7f && letter != '='; };
    if (variable.empty() || !std::all_of(variable.begin(), variable.end(), usable)) {
      diagnostics_.add(key.source(), fmt::format("{}: '{}' cannot be the name of a variable", name_, variable));
    } else if (const auto* text = node.as_string(); text != nullptr && text->get().find('\0') == std::string::npos) {
      out.emplace_back(variable, text->get());
    } else if (const auto* integer = node.as_integer()) {
      out.emplace_back(variable, fmt::format("{}", integer->get()));
    } else {
      Value(node, fmt::format("{}.{}", name_, variable), diagnostics_).refuse_type("text or an integer");
    }
  }
}

void Value::device_order(NodeSpec& out) const {
  if (const auto* text = node_.as_string()) {
    if (text->get() != "reversed") {
      return refuse(fmt::format("expects \"reversed\" or a list of devices, got '{}'", text->get().substr(0, 40)));
    }
    out.device_order_reversed = true;
    return;
  }
  texts(out.device_order);
}

void Value::placement(WorkloadSpec& out) const {
  if (const auto* text = node_.as_string()) {
    if (text->get() != "contiguous" && text->get() != "round-robin") {
      return refuse(fmt::format("expects \"contiguous\", \"round-robin\" or a list of nodes, got '{}'",
                                text->get().substr(0, 40)));
    }
    out.value.is_round_robin = text->get() == "round-robin";
    return;
  }
  out.lists_placement = true;
  texts(out.placement);
}

void Value::counts(int& each, std::vector<int>& listed, IntegerRange range) const {
  if (const toml::array* array = node_.as_array()) {
    return array->empty() ? refuse("lists no number") : integers(listed, range);
  }
  if (const auto value = read_integer(range)) each = static_cast<int>(*value);
}

}  // namespace meshbed::testbed
