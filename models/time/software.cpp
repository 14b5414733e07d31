#include "models/time/software.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <string_view>

namespace meshbed::models {
namespace {

constexpr double kPayloadBytesPerUsOfGBps = 1e3;

Picoseconds ps_of(double us) {
  return static_cast<Picoseconds>(std::llround(std::max(us, 0.0) * static_cast<double>(kPicosecondsPerMicrosecond)));
}

MachineParameter hop_of(CollectiveProtocol protocol) {
  if (protocol == CollectiveProtocol::kLl) return MachineParameter::kNetLlUs;
  return protocol == CollectiveProtocol::kLl128 ? MachineParameter::kNetLl128Us : MachineParameter::kNetSimpleUs;
}

Picoseconds hop_ps(const Machine& machine, CollectiveProtocol protocol) {
  return ps_of(machine[hop_of(protocol)] + machine[MachineParameter::kNetLatencyUs] -
               machine[MachineParameter::kWireUs]);
}

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

SoftwareCost software_cost(const Machine& machine, const CollectiveCall& call, double payload_factor) {
  const CollectiveTime time = collective_time(machine, call);
  double call_us = 0, bytes_us = 0;
  for (const TimePart& part : time.parts) {
    if (is_one_of(part.name, {"hops between nodes", "hops within nodes"})) continue;
    (is_one_of(part.name, {"launch", "pairs", "peers"}) ? call_us : bytes_us) += part.us;
  }
  const double carried = sent_bytes(call, time.algorithm, machine.cabling) * payload_factor;
  bytes_us -= carried / (node_GBps(machine, ranks_of_node(call)) * kPayloadBytesPerUsOfGBps);
  return {.call_ps = ps_of(call_us), .bytes_ps = ps_of(bytes_us), .hop_ps = hop_ps(machine, time.protocol)};
}

SoftwareCost software_cost_of_messages(const Machine& machine, CollectiveProtocol protocol) {
  return {.call_ps = ps_of(machine[MachineParameter::kLaunchUs]), .hop_ps = hop_ps(machine, protocol)};
}

std::uint64_t reached_bps(const Machine& machine, std::uint64_t rate_bps, int nics) {
  constexpr double kBitsPerByte = 8, kGiga = 1e9;
  const double payload = machine[MachineParameter::kMtuBytes];
  const double on_wire = (payload + machine[MachineParameter::kPacketOverheadBytes]) / payload;
  const double cap_bps =
      machine[MachineParameter::kHostCapGBps] * kGiga * kBitsPerByte * on_wire / static_cast<double>(std::max(nics, 1));
  const double reached = static_cast<double>(rate_bps) * machine[MachineParameter::kNicFraction];
  return static_cast<std::uint64_t>(std::max(1.0, std::min(reached, cap_bps)));
}

std::vector<MachineParameter> parameters_of(const Machine& machine, const CollectiveTime& time) {
  std::vector<MachineParameter> all{MachineParameter::kLaunchUs, hop_of(time.protocol)};
  const auto add_if_said = [&](std::initializer_list<MachineParameter> parameters) {
    for (const MachineParameter each : parameters) {
      if (machine.values.at(static_cast<std::size_t>(each))) all.push_back(each);
    }
  };
  add_if_said({MachineParameter::kNetLatencyUs});
  all.push_back(MachineParameter::kWireUs);
  add_if_said({MachineParameter::kNicFraction, MachineParameter::kHostCapGBps, MachineParameter::kChannels,
               MachineParameter::kChannelGBps});
  for (const TimePart& part : time.parts) {
    const std::string_view name = part.name;
    if (name == "pairs") add_if_said({MachineParameter::kPairsUs});
    if (name == "peers") add_if_said({MachineParameter::kPeerUs});
    if (name == "fill") add_if_said({MachineParameter::kFillStages, MachineParameter::kSliceBytes});
    if (name == "ramp") add_if_said({MachineParameter::kRampDepth, MachineParameter::kRampUs});
    if (name == "LL spill") add_if_said({MachineParameter::kLlWindowBytes, MachineParameter::kLlSpillGBps});
    if (name == "waves") add_if_said({MachineParameter::kWaveBytes, MachineParameter::kWaveUs});
    if (name == "reduce") add_if_said({MachineParameter::kReduceGBps});
    if (name == "copy") add_if_said({MachineParameter::kCopyGBps});
  }
  if (time.protocol == CollectiveProtocol::kLl) add_if_said({MachineParameter::kLlFraction});
  if (time.protocol == CollectiveProtocol::kLl128) add_if_said({MachineParameter::kLl128Fraction});
  if (time.algorithm == CollectiveAlgorithm::kTree) add_if_said({MachineParameter::kTreeFraction});
  return all;
}

}  // namespace meshbed::models
