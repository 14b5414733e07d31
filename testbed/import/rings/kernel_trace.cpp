// The kernels of a trace with their times.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "testbed/base/closest_name.h"
#include "testbed/import/rings/ring_import.h"

namespace meshbed::testbed::rings {
namespace {

using nlohmann::json;

constexpr double kTimeMost_us = 1e16;  // since 1970 in microseconds, and ten times that
constexpr std::uint64_t kCountMost = 1ULL << 40U;

std::string lower(std::string_view text) {
  std::string all(text);
  std::transform(all.begin(), all.end(), all.begin(),
                 [](unsigned char each) { return static_cast<char>(std::tolower(each)); });
  std::erase(all, '_');
  return all;
}

/// Of PyTorch's names (torch/csrc/distributed/c10d) and of NCCL's kernels (src/device/generate.py); "" of others.
std::string collective_named(std::string_view text) {
  static constexpr std::array<std::pair<const char*, const char*>, 6> kWords{{{"allreduce", "all_reduce"},
                                                                              {"allgather", "all_gather"},
                                                                              {"reducescatter", "reduce_scatter"},
                                                                              {"alltoall", "all_to_all"},
                                                                              {"broadcast", "broadcast"},
                                                                              {"reduce", "reduce"}}};
  const std::string name = lower(text);
  for (const auto& [word, collective] : kWords) {
    if (name.find(word) != std::string::npos) return collective;
  }
  return "";
}

bool is_nccl_kernel(std::string_view name) {
  return name.starts_with("ncclDevKernel") || name.starts_with("ncclKernel");
}

/// c10's names of scalar types; 0 of others.
std::uint64_t element_bytes_of(const std::string& dtype) {
  static const std::map<std::string, std::uint64_t> kBytes{
      {"byte", 1},  {"char", 1},     {"bool", 1}, {"float8e4m3fn", 1}, {"float8e5m2", 1}, {"half", 2},
      {"short", 2}, {"bfloat16", 2}, {"int", 4},  {"float", 4},        {"long", 8},       {"double", 8}};
  const auto found = kBytes.find(lower(dtype));
  return found != kBytes.end() ? found->second : 0;
}

std::uint64_t count_of(const json& args, const char* key) {
  const auto found = args.find(key);
  if (found == args.end() || !found->is_number_unsigned()) return 0;
  return std::min(found->get<std::uint64_t>(), kCountMost);
}

std::string text_of(const json& of, const char* key) {
  const auto found = of.find(key);
  if (found == of.end()) return "";
  return found->is_string() ? found->get<std::string>() : found->dump();
}

/// From the arguments that PyTorch 2.3 and later give a collective's kernel or the call that launched it.
KernelExchange exchange_of(const json& args) {
  KernelExchange exchange;
  exchange.collective = collective_named(text_of(args, "Collective name"));
  if (exchange.collective.empty()) return exchange;
  const std::uint64_t element_bytes = element_bytes_of(text_of(args, "dtype"));
  const bool by_output = exchange.collective == "all_gather";
  exchange.bytes = element_bytes * count_of(args, by_output ? "Out msg nelems" : "In msg nelems");
  exchange.group_size = count_of(args, "Group size");
  if (element_bytes > 0) exchange.element_bytes = element_bytes;
  return exchange;
}

double time_us(const json& event, const char* key, const std::string& path, std::size_t index) {
  const auto found = event.find(key);
  const double value = found != event.end() && found->is_number() ? found->get<double>() : -1;
  if (!(value >= 0) || value > kTimeMost_us) {
    refuse(path, fmt::format("traceEvents[{}]: '{}' is no number from 0, in microseconds", index, key));
  }
  return value;
}

struct Window {
  double from_us = 0, to_us = 0;
};

bool is_step_event(const json& event) {
  const std::string category = text_of(event, "cat");
  return category == "user_annotation" || category == "gpu_user_annotation";
}

/// Where the step is on the GPU, which lags behind the host; the host's place where the trace has no other.
std::optional<Window> window_of(const json& events, const std::string& step, const std::string& path) {
  if (step.empty()) return std::nullopt;
  std::optional<Window> on_gpu, on_host;
  std::vector<std::string> names;
  for (std::size_t index = 0; index < events.size(); ++index) {
    const json& event = events[index];
    if (!event.is_object() || text_of(event, "ph") != "X" || !is_step_event(event)) continue;
    const std::string name = text_of(event, "name");
    names.push_back(name);
    if (name != step) continue;
    std::optional<Window>& window = text_of(event, "cat") == "gpu_user_annotation" ? on_gpu : on_host;
    const double from_us = time_us(event, "ts", path, index), to_us = from_us + time_us(event, "dur", path, index);
    window =
        window ? Window{std::min(window->from_us, from_us), std::max(window->to_us, to_us)} : Window{from_us, to_us};
  }
  if (on_gpu) return on_gpu;
  if (on_host) return on_host;
  const std::string close = closest_name(step, names);
  refuse(path, fmt::format("there is no annotation '{}'{}", step,
                           close.empty() ? "; the trace has none that is like it"
                                         : fmt::format("; did you mean '{}'?", close)));
}

void add_bytes(KernelExchange& exchange, const std::string& name, const TraceChoice& choice) {
  if (exchange.collective.empty() && is_nccl_kernel(name)) exchange.collective = collective_named(name);
  if (exchange.collective.empty() || exchange.bytes > 0) return;
  const auto given = choice.bytes_of.find(exchange.collective);
  if (given != choice.bytes_of.end()) exchange.bytes = given->second;
}

/// So that GPU 10 comes after GPU 9.
std::string in_order_of_numbers(const std::string& name) {
  constexpr std::size_t kDigits = 20;
  std::string result, digits;
  const auto end_digits = [&] {
    if (!digits.empty()) result += std::string(kDigits - std::min(kDigits, digits.size()), '0') + digits;
    digits.clear();
  };
  for (const char each : name) {
    if (each >= '0' && each <= '9') {
      digits += each;
      continue;
    }
    end_digits();
    result += each;
  }
  end_digits();
  return result;
}

/// Times count from the first kernel on: since 1970 in microseconds a double has a quarter of one.
std::vector<std::vector<TracedKernel>> by_device(std::map<std::string, std::vector<TracedKernel>> named,
                                                 const std::string& path) {
  std::map<std::string, std::vector<TracedKernel>> devices;
  double first_us = kTimeMost_us;
  for (auto& [name, kernels] : named) {
    for (const TracedKernel& kernel : kernels) first_us = std::min(first_us, kernel.start_us);
    devices[in_order_of_numbers(name)] = std::move(kernels);
  }
  std::vector<std::vector<TracedKernel>> all;
  for (auto& [device, kernels] : devices) {
    for (TracedKernel& kernel : kernels) kernel.start_us -= first_us;
    std::stable_sort(kernels.begin(), kernels.end(), [](const TracedKernel& left, const TracedKernel& right) {
      return left.start_us < right.start_us;
    });
    all.push_back(std::move(kernels));
  }
  if (all.empty()) refuse(path, "has no kernel: neither events of category \"kernel\" nor rows of cuda_gpu_trace");
  return all;
}

std::vector<std::vector<TracedKernel>> read_chrome(const ImportText& file, const TraceChoice& choice) {
  json trace;
  try {
    trace = json::parse(file.text);
  } catch (const json::exception& error) {
    refuse(file.path, error.what());
  }
  const json& events = trace.is_object() && trace.contains("traceEvents") ? trace["traceEvents"] : trace;
  if (!events.is_array()) {
    refuse(file.path,
           "expected are a trace in Chrome's JSON format (a list \"traceEvents\") or nsys's table cuda_gpu_trace");
  }
  std::map<std::string, KernelExchange> calls;  // by "External id"
  for (const json& event : events) {
    if (!event.is_object() || text_of(event, "name") != "record_param_comms") continue;
    const auto args = event.find("args");
    if (args == event.end() || !args->is_object()) continue;
    if (const std::string id = text_of(*args, "External id"); !id.empty()) calls[id] = exchange_of(*args);
  }
  const std::optional<Window> window = window_of(events, choice.step, file.path);
  std::map<std::string, std::vector<TracedKernel>> devices;
  for (std::size_t index = 0; index < events.size(); ++index) {
    const json& event = events[index];
    if (!event.is_object() || text_of(event, "ph") != "X") continue;
    const std::string category = text_of(event, "cat");
    if (category != "kernel" && category != "gpu_memcpy" && category != "gpu_memset") continue;
    TracedKernel kernel{.name = text_of(event, "name")};
    kernel.start_us = time_us(event, "ts", file.path, index);
    kernel.duration_us = time_us(event, "dur", file.path, index);
    if (window && (kernel.start_us < window->from_us || kernel.start_us >= window->to_us)) continue;
    const json args = event.contains("args") && event["args"].is_object() ? event["args"] : json::object();
    kernel.stream = args.contains("stream") ? text_of(args, "stream") : text_of(event, "tid");
    kernel.exchange = exchange_of(args);
    if (kernel.exchange.collective.empty() && is_nccl_kernel(kernel.name)) {
      const auto call = calls.find(text_of(args, "External id"));
      const std::string own = collective_named(kernel.name);  // of an all-to-all none: it is sends and receives
      if (call != calls.end() && (own.empty() || own == call->second.collective)) kernel.exchange = call->second;
    }
    add_bytes(kernel.exchange, kernel.name, choice);
    devices[args.contains("device") ? text_of(args, "device") : text_of(event, "pid")].push_back(std::move(kernel));
  }
  return by_device(std::move(devices), file.path);
}

// --- nsys stats --report cuda_gpu_trace --format csv ---

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (const char each : line) {
    if (each == '"') {
      quoted = !quoted;
    } else if (each == ',' && !quoted) {
      fields.emplace_back();
    } else if (each != '\r') {
      fields.back() += each;
    }
  }
  return fields;
}

struct Column {
  std::size_t index = 0;
  double to_us = 1;  // of a time
};

/// "Start (ns)", "Duration (us)": the unit stands in the heading.
std::optional<Column> time_column(const std::vector<std::string>& heading, std::string_view name) {
  static constexpr std::array<std::pair<const char*, double>, 5> kUnits{
      {{"nsec", 1e-3}, {"ns", 1e-3}, {"us", 1}, {"ms", 1e3}, {"s", 1e6}}};
  for (std::size_t index = 0; index < heading.size(); ++index) {
    if (!heading[index].starts_with(name)) continue;
    for (const auto& [unit, to_us] : kUnits) {
      if (heading[index].ends_with(fmt::format("({})", unit))) return Column{index, to_us};
    }
  }
  return std::nullopt;
}

std::optional<std::size_t> column(const std::vector<std::string>& heading, std::string_view name) {
  const auto found = std::find(heading.begin(), heading.end(), name);
  if (found == heading.end()) return std::nullopt;
  return static_cast<std::size_t>(found - heading.begin());
}

std::vector<std::vector<TracedKernel>> read_nsys(const ImportText& file, const TraceChoice& choice) {
  if (!choice.step.empty()) {
    refuse(file.path, "--step is for traces with annotations; nsys's table has none: leave it out, or cut the table");
  }
  std::istringstream in(file.text);
  std::size_t number = 0;
  std::vector<std::string> heading;
  std::map<std::string, std::vector<TracedKernel>> devices;
  std::optional<Column> start, duration;
  std::optional<std::size_t> device, stream, name;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (heading.empty()) {
      if (!line.starts_with("Start")) continue;  // nsys prints what it does before it
      heading = fields_of(line);
      start = time_column(heading, "Start"), duration = time_column(heading, "Duration");
      device = column(heading, "Device"), stream = column(heading, "Strm"), name = column(heading, "Name");
      if (!start || !duration || !name) {
        refuse(file.path,
               fmt::format("line {}: expected are the columns Start, Duration and Name of cuda_gpu_trace", number));
      }
      continue;
    }
    const std::vector<std::string> fields = fields_of(line);
    if (fields.size() == 1 && fields.front().empty()) continue;
    if (fields.size() != heading.size()) {
      refuse(file.path,
             fmt::format("line {}: {} fields, and the heading has {}", number, fields.size(), heading.size()));
    }
    const auto time = [&](const Column& of) {
      const std::string& text = fields[of.index];
      double value = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      if (error != std::errc() || end != text.data() + text.size() || !(value >= 0) ||
          value * of.to_us > kTimeMost_us) {
        refuse(file.path, fmt::format("line {}: '{}' is no number from 0", number, text.substr(0, 64)));
      }
      return value * of.to_us;
    };
    TracedKernel kernel{.name = fields[*name]};
    kernel.stream = stream ? fields[*stream] : "0";
    kernel.start_us = time(*start), kernel.duration_us = time(*duration);
    add_bytes(kernel.exchange, kernel.name, choice);
    devices[device ? fields[*device] : ""].push_back(std::move(kernel));
  }
  return by_device(std::move(devices), file.path);
}

}  // namespace

bool is_nsys_table(const std::string& text) {
  constexpr int kLinesBefore = 64;  // nsys prints what it does before the table, as "[3/8] Executing ..."
  std::size_t at = 0;
  for (int line = 0; line < kLinesBefore && at < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view now = std::string_view(text).substr(at, end - at);
    if (now.starts_with("Start") && now.find("Duration") != std::string_view::npos) return true;
    at = end + 1;
  }
  return false;
}

std::vector<std::vector<TracedKernel>> read_kernels(const ImportText& file, const TraceChoice& choice) {
  if (file.text.starts_with("\x1f\x8b")) refuse(file.path, "is compressed: gunzip it first");
  return is_nsys_table(file.text) ? read_nsys(file, choice) : read_chrome(file, choice);
}

}  // namespace meshbed::testbed::rings
