#include "models/time/message_time.h"

#include <algorithm>
#include <cmath>

namespace meshbed::models {

std::optional<MessageTest> parse_message_test(std::string_view name) {
  const auto ends = [&](std::string_view tail) {
    return name.size() > tail.size() && name.substr(name.size() - tail.size()) == tail;
  };
  // An atomic waits for what was in the other's memory, as a read does.
  const bool is_atomic = name.find("atomic") != std::string_view::npos;
  const bool read =
      is_atomic || name.find("read") != std::string_view::npos || name.find("get") != std::string_view::npos;
  if (ends("_lat") || ends("_latency")) return MessageTest{.latency = true, .read = read};
  if (ends("_bibw")) return MessageTest{.latency = false, .read = read, .both_ways = true};
  for (const std::string_view batch : {"rdma_write", "rdma_read", "rdma_send", "send"}) {
    if (name == batch) return MessageTest{.latency = false, .read = read, .batch = 1};
  }
  if (ends("_bw") || ends("_get") || ends("_put") || ends("_stream"))
    return MessageTest{.latency = false, .read = read};
  return std::nullopt;
}

double message_us(const Machine& machine, const MessageTest& test, std::uint64_t bytes) {
  constexpr double kBytesPerUsOfGBps = 1e3;
  const auto size = static_cast<double>(bytes);
  const double fraction = test.read ? machine[MachineParameter::kReadFraction] : 1;
  // One queue pair is one adapter's, where the class is a node of several.
  const bool is_node = machine.transport != MachineTransport::kMessage && machine[MachineParameter::kNics] > 1;
  const double one_GBps =
      wire_GBps(machine) / machine[MachineParameter::kNics] * machine[MachineParameter::kNicFraction];
  const double rate_GBps = is_node ? std::min(node_GBps(machine), one_GBps) : node_GBps(machine);
  const double duplex = test.both_ways ? machine[MachineParameter::kDuplexFraction] : 1;
  const double bytes_per_us = rate_GBps * fraction * duplex * kBytesPerUsOfGBps;
  constexpr double kNorm = 4;
  const auto longest = [](double one, double two) {
    return std::pow(std::pow(one, kNorm) + std::pow(two, kNorm), 1 / kNorm);
  };
  if (test.batch > 0) {
    const double each = machine[test.read ? MachineParameter::kReadMessageUs : MachineParameter::kMessageUs];
    const double moved = longest(test.batch * each, size / bytes_per_us);
    const double ramp_us = machine[MachineParameter::kRampUs];
    const double ramp = machine[MachineParameter::kRampDepth] * ramp_us * (1 - std::exp(-moved / ramp_us));
    return (machine[MachineParameter::kLaunchUs] + moved + ramp) / (test.both_ways ? 2 : 1);
  }
  const double asked =
      size >= machine[MachineParameter::kRendezvousBytes] ? machine[MachineParameter::kRendezvousUs] : 0;
  const double stored =
      machine[MachineParameter::kFillStages] * std::min(size, machine[MachineParameter::kSliceBytes]) / bytes_per_us;
  if (test.latency) {
    const double fetched = size > machine[MachineParameter::kInlineBytes] ? machine[MachineParameter::kDmaUs] : 0;
    return machine[MachineParameter::kWireUs] + fetched + asked + stored + size / bytes_per_us;
  }
  const double apart =
      machine[test.read ? MachineParameter::kReadMessageUs : MachineParameter::kMessageUs] + asked + stored;
  return longest(apart, size / bytes_per_us) / (test.both_ways ? 2 : 1);
}

}  // namespace meshbed::models
