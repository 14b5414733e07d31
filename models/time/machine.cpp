#include "models/time/machine.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "models/link.h"

namespace meshbed::models {
namespace {

constexpr const char* kNccl = "NCCL src/graph/tuning.cc @5067397";
constexpr const char* kNone = "no such limit unless a profile says so";
constexpr const char* kNoLl128 =
    "NCCL src/graph/tuning.cc: LL128 only where a NIC writes GPU memory by way of a PCIe switch";
constexpr const char* kNoLl128OverPcie =
    "NCCL v2.30.7-1 src/graph/tuning.cc 531: LL128 only where GPUs of a node reach one another by NVLink";
constexpr const char* kPcieHops =
    "NCCL src/graph/tuning.cc @5067397: hwLatencies, PCI, ring: within a node at most 64 GB/s, PCIe 5.0 x16";
constexpr const char* kTcpRoundTrip = "half a round trip of TCP between machines of one zone, 30 to 60 us";
constexpr double kGraphNodeUs = 2;
constexpr const char* kGraphNode =
    "one kernel of a CUDA graph: 0.5 us from one to the next (NVIDIA, Getting Started with CUDA Graphs), start and end";
constexpr const char* kFlagWithData =
    "NCCL src/graph/tuning.cc @5067397: a hop of LL128, which sends its flag with its data as such kernels do";
constexpr double kNever = 1;      // a threshold that no message is below
constexpr double kNoLimit = 1e9;  // GB/s

constexpr std::array<ParameterInfo, kParameters> kInfo{{
    {"launch_us", 0.5, 5000, 6.6, Basis::kConstant, kNccl, "once a call: kernel launch and what waits for its end"},
    {"eager_us", 0, 5000, 0, Basis::kGuess, "no difference unless a profile says so",
     "a call that is launched by itself, beside one replayed from a graph: framework and launch"},
    {"barrier_us", 0, 1000, 0, Basis::kGuess, "none unless a profile says so",
     "a barrier of all GPUs before and behind a kernel that works in its callers' buffers"},
    {"pairs_us", 0, 100, 0, Basis::kGuess, "none unless a profile says so",
     "what a call made of sends and receives takes beside a collective: alltoall, gather, scatter; all peers at once"},
    {"peer_us", 0, 1000, 0, Basis::kGuess, "none unless a profile says so",
     "each peer of a call made of sends and receives, where a message is a kernel of its own"},
    {"rooted_as_all", 0, 1, 0, Basis::kGuess, "rooted calls have plans of their own, unless a profile says not",
     "1: a broadcast is everyone's direct all_gather of so much, and a reduce is an all_reduce"},
    {"skew_us", 0, 1e5, 0, Basis::kGuess, "none unless a profile says so",
     "how far apart ranks begin a test of nccl-tests, whose iterations share it"},
    {"channels", 0, 64, 0, Basis::kGuess, "0: as many as rates need, at any size", "NCCL's channels at most"},
    {"channel_GBps", 0.05, kNoLimit, 20, Basis::kConstant,
     "NCCL v2.30.7 src/graph/tuning.cc: perChMaxRingLL128Bws, 20 of Volta and Ampere, 36.7 of Hopper, 40 of Blackwell",
     "what one of its channels moves; LL half of it"},
    {"net_ll_us", 0.5, 5000, 5.0, Basis::kConstant, kNccl, "a hop between nodes, LL: flag, proxy, NIC, flag"},
    {"net_ll128_us", 0.5, 5000, 8.5, Basis::kConstant, kNccl, "a hop between nodes, LL128"},
    {"net_simple_us", 0.5, 5000, 14, Basis::kConstant, kNccl, "a hop between nodes, Simple: clear-to-send and flush"},
    {"net_latency_us", 0, 5000, 0, Basis::kConstant, "NCCL src/graph/tuning.cc: latencyInter, 0 of its own nets",
     "what the transport adds to each hop between nodes, with every protocol"},
    {"intra_ll_us", 0.1, 100, 0.6, Basis::kConstant, kNccl, "a hop within a node, LL"},
    {"intra_ll128_us", 0.1, 100, 1.9, Basis::kConstant, kNccl, "a hop within a node, LL128"},
    {"intra_simple_us", 0.1, 300, 3.4, Basis::kConstant, kNccl, "a hop within a node, Simple"},
    {"nics", 1, 64, 1, Basis::kGuess, "one, unless a profile says so", "NICs of a node that a hop uses together"},
    {"nic_GBps", 0.01, 200, 12.5, Basis::kGuess, "100 Gb/s, unless a profile says so", "line rate of one of them"},
    {"mtu_bytes", 256, 65536, 4096, Basis::kDataSheet, "largest path MTU of InfiniBand", "payload of a packet"},
    {"packet_overhead_bytes", 0, 200, kRoceV2PacketOverheadBytes, Basis::kDataSheet,
     "RoCE v2 on Ethernet: models/link.h", "headers and gap of a packet"},
    {"host_cap_GBps", 0.005, kNoLimit, kNoLimit, Basis::kGuess, kNone,
     "what the host feeds its NICs: PCIe, staging, proxy"},
    {"nic_fraction", 0.02, 1, 1, Basis::kGuess, kNone, "of the wire's payload rate, what the library reaches"},
    {"intra_GBps", 0.1, kNoLimit, kNoLimit, Basis::kGuess, kNone, "one GPU to the next within a node"},
    {"ll_fraction", 0.002, 1, 0.5, Basis::kConstant, kNccl, "of the rate, LL: 4 bytes of data a flag of 4"},
    {"ll128_fraction", 0.02, 1.2, 0.92, Basis::kConstant, kNccl, "of the rate, LL128: 120 bytes of 128"},
    {"tree_fraction", 0.05, 1.2, 0.85, Basis::kConstant, kNccl, "of the rate, trees"},
    {"ll_max_bytes", 0, 1e8, 0, Basis::kGuess, "0: by the cost table", "share up to which LL is chosen; 1: never"},
    {"ll128_max_bytes", 0, 1e9, 0, Basis::kGuess, "0: by the cost table",
     "share up to which LL128 is chosen; 1: never"},
    {"tree_max_bytes", 0, 1e11, 0, Basis::kGuess, "0: by the cost table",
     "all_reduce up to which trees are chosen; 1: never"},
    {"fill_stages", 0, 12, 0, Basis::kGuess, kNone, "times that a slice is stored before it goes on, each hop"},
    {"slice_bytes", 512, 1e8, 1048576, Basis::kConstant, "NCCL: buffers of 4 MiB in 8 steps, on 2 channels",
     "in flight over all channels of a hop"},
    {"ramp_depth", 0, 3, 0, Basis::kGuess, kNone, "time that the first bytes take beyond the steady rate, as a share"},
    {"ramp_us", 1, 1e7, 1000, Basis::kGuess, kNone, "until the steady rate: congestion window, page tables, clocks"},
    {"ll_window_bytes", 0, 1e9, 1e9, Basis::kGuess, kNone, "share that LL's buffers take without waiting"},
    {"ll_spill_GBps", 0.02, kNoLimit, kNoLimit, Basis::kGuess, kNone, "LL beyond its window"},
    {"reduce_GBps", 0.1, kNoLimit, kNoLimit, Basis::kGuess, kNone, "sums on a GPU that its wire does not hide"},
    {"copy_GBps", 0.1, kNoLimit, kNoLimit, Basis::kGuess, kNone, "copies of what was gathered into the caller's lists"},
    {"wave_bytes", 512, kNoLimit, kNoLimit, Basis::kGuess, kNone,
     "bytes that all threads of a kernel have under way at once: blocks * threads * bytes of one access"},
    {"wave_us", 0, 1000, 0, Basis::kGuess, kNone, "from one such wave to the next"},
    {"duplex_fraction", 0.3, 1, 1, Basis::kGuess, "full duplex", "of a node's inner rate, while both directions move"},
    {"message_us", 0.001, 100, 0.3, Basis::kGuess, "ConnectX, one queue pair: 3 million messages a second",
     "NIC, between two messages of a queue pair"},
    {"read_message_us", 0.001, 100, 0.3, Basis::kGuess, "as a write", "the same, reads"},
    {"read_fraction", 0.05, 1.2, 1, Basis::kGuess, "as a write", "of the rate, reads"},
    {"wire_us", 0.1, 1000, 1.5, Basis::kGuess, "ConnectX over a short cable", "one message of a byte, one way"},
    {"inline_bytes", 0, 65536, 220, Basis::kConstant, "perftest: inline size of write_lat and send_lat",
     "what a work request carries itself"},
    {"dma_us", 0, 100, 0.7, Basis::kGuess, "a read over PCIe", "what is not inline is fetched"},
    {"rendezvous_bytes", 0, 1e9, 1e9, Basis::kGuess, kNone, "message from which its receiver is asked first"},
    {"rendezvous_us", 0, 1000, 0, Basis::kGuess, kNone, "what asking costs"},
    {"ep_by_nic", 0, 1, 0, Basis::kGuess, "links within a node are used, unless a profile says not",
     "1: expert-parallel messages to the same node go by the NICs, too"},
    {"ep_message_us", 0, 1000, 0, Basis::kGuess, kNone, "each message of a token to another node: GPU or proxy thread"},
    {"ep_peer_us", 0, 1000, 0, Basis::kGuess, kNone, "each remote rank of a dispatch or combine: counts and signals"},
    {"ep_peer_GBps", 0.005, kNoLimit, kNoLimit, Basis::kGuess, kNone, "of one connection to a remote rank"},
    {"ep_sms", 1, 512, 24, Basis::kConstant, "DeepEP deep_ep/buffer.py: num_sms = 20; its tables are of 24",
     "multiprocessors of the kernels, where the call gives none"},
    {"ep_sm_GBps", 0.05, kNoLimit, kNoLimit, Basis::kGuess, kNone, "what one multiprocessor copies"},
    {"ep_sm_token_us", 0, 1000, 0, Basis::kGuess, kNone, "a multiprocessor's cost of a token beside its bytes"},
    {"ep_combine_fraction", 0.05, 20, 1, Basis::kGuess, "as dispatch", "of the rates within a node, combine"},
    {"ep_combine_cost", 0.02, 20, 1, Basis::kGuess, "as dispatch", "of launch, hop, peers and messages, combine"},
    {"naive_step_us", 0.01, 1e5, 14, Basis::kConstant, kNccl, "of the line that is carried over: a step"},
    {"naive_GBps", 0.001, kNoLimit, 10, Basis::kGuess, "80 of 100 Gb/s", "of the line that is carried over: a byte"},
}};

constexpr std::array<const char*, 3> kCablings{"switch", "ring", "mesh"};
constexpr std::array<const char*, 12> kTransports{"none", "verbs",     "staged", "unified", "efa",     "tcp",
                                                  "tcpx", "slingshot", "within", "kernel",  "message", "expert"};

/// A transport's default for a value that a profile does not have.
struct TransportDefault {
  MachineTransport transport;
  MachineParameter parameter;
  double value;
  Basis basis;
  const char* source;
};
constexpr std::array<TransportDefault, 14> kTransportDefaults{{
    {MachineTransport::kStaged, MachineParameter::kNicFraction, 0.5, Basis::kGuess,
     "without GPUDirect each byte crosses PCIe twice and host memory twice"},
    {MachineTransport::kTcp, MachineParameter::kNicFraction, 0.5, Basis::kGuess,
     "sockets: as staged by way of the host, and the kernel copies once more"},
    {MachineTransport::kStaged, MachineParameter::kHostCapGBps, 16, Basis::kConstant,
     "NCCL src/graph/topo.h @5067397: AMD_BW, what goes by way of a host's own PCIe ports; 10 to 22 of Intel's"},
    {MachineTransport::kEfa, MachineParameter::kNetLatencyUs, 35, Basis::kGuess,
     "aws-ofi-nccl src/platform-aws.cpp @01666ec passes 35 us to NCCL on p5en and later, 75 on older ones"},
    {MachineTransport::kTcpx, MachineParameter::kNetLatencyUs, 25, Basis::kGuess, kTcpRoundTrip},
    {MachineTransport::kTcp, MachineParameter::kNetLatencyUs, 25, Basis::kGuess, kTcpRoundTrip},
    {MachineTransport::kStaged, MachineParameter::kLl128MaxBytes, kNever, Basis::kConstant, kNoLl128},
    {MachineTransport::kUnified, MachineParameter::kLl128MaxBytes, kNever, Basis::kConstant, kNoLl128},
    {MachineTransport::kTcp, MachineParameter::kLl128MaxBytes, kNever, Basis::kConstant, kNoLl128},
    {MachineTransport::kTcpx, MachineParameter::kLl128MaxBytes, kNever, Basis::kConstant, kNoLl128},
    {MachineTransport::kEfa, MachineParameter::kLl128MaxBytes, kNever, Basis::kConstant, kNoLl128},
    {MachineTransport::kWithin, MachineParameter::kIntraGBps, 13.1, Basis::kGuess,
     "PCIe 3.0 x16: 15.75 GB/s, less 26 bytes of headers a packet of 128"},
    {MachineTransport::kWithin, MachineParameter::kDuplexFraction, 0.55, Basis::kGuess,
     "PCIe: 0.75 where GPUs reach one another, whose read requests and acknowledgements go the other way; 0.41 by way "
     "of the host's memory: two RTX 2080 Ti, alltoall 4.6 GB/s each way where broadcast reaches 11.1 (NCCL-tests; "
     "Anthony-Hoo.github.io posts/AutoDL_Multi-GPU_Interconnection_Test.md)"},
    // NCCL src/device/sendrecv.h @5067397: the peers' tasks run side by side, each on warps of its own.
    {MachineTransport::kWithin, MachineParameter::kPairsUs, 3, Basis::kGuess,
     "two RTX 2080 Ti: alltoall of up to 8 KiB takes 13.0 us where all_gather takes 10.0 (NCCL-tests; "
     "Anthony-Hoo.github.io posts/AutoDL_Multi-GPU_Interconnection_Test.md)"},
}};

constexpr double kMostOfPcieGBps = 64;
struct HopOverPcie {
  MachineParameter parameter;
  double us;
};
constexpr std::array<HopOverPcie, 3> kHopsOverPcie{{{MachineParameter::kIntraLlUs, 1.0},
                                                    {MachineParameter::kIntraLl128Us, 2.5},
                                                    {MachineParameter::kIntraSimpleUs, 5.7}}};

struct Default {
  double value;
  Basis basis;
  const char* source;
};

/// The default of the transport or of the links within a node for a value that a profile does not have; nullopt: the
/// fallback.
std::optional<Default> default_of(const Machine& machine, MachineParameter parameter) {
  const auto* const own = std::find_if(
      kTransportDefaults.begin(), kTransportDefaults.end(),
      [&](const TransportDefault& each) { return each.transport == machine.transport && each.parameter == parameter; });
  if (own != kTransportDefaults.end()) return Default{own->value, own->basis, own->source};
  if (machine.transport == MachineTransport::kWithin && machine.library == "oneshot") {
    if (parameter == MachineParameter::kLaunchUs) return Default{kGraphNodeUs, Basis::kGuess, kGraphNode};
    if (parameter == MachineParameter::kIntraSimpleUs && machine[MachineParameter::kIntraGBps] > kMostOfPcieGBps)
      return Default{info_of(MachineParameter::kIntraLl128Us).fallback, Basis::kConstant, kFlagWithData};
  }
  const bool has_peers = machine.ranks_per_node > 1 && machine.transport != MachineTransport::kKernel;
  if (parameter == MachineParameter::kLl128MaxBytes && has_peers &&
      machine[MachineParameter::kIntraGBps] <= kMostOfPcieGBps) {
    return Default{kNever, Basis::kConstant, kNoLl128OverPcie};
  }
  for (const HopOverPcie& each : kHopsOverPcie) {
    if (each.parameter != parameter || machine[MachineParameter::kIntraGBps] > kMostOfPcieGBps) continue;
    return Default{each.us, Basis::kConstant, kPcieHops};
  }
  return std::nullopt;
}

template <class Enum, std::size_t N>
std::optional<Enum> parse_name(const std::array<const char*, N>& names, std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Enum>(found - names.begin());
}

}  // namespace

static_assert(kNever < 4, "a threshold of 1 byte must be below every share of a whole element");

const char* name_of(Cabling cabling) { return kCablings.at(static_cast<std::size_t>(cabling)); }
std::optional<Cabling> parse_cabling(std::string_view name) { return parse_name<Cabling>(kCablings, name); }

const char* name_of(MachineTransport transport) { return kTransports.at(static_cast<std::size_t>(transport)); }
std::optional<MachineTransport> parse_transport(std::string_view name) {
  return parse_name<MachineTransport>(kTransports, name);
}

const ParameterInfo& info_of(MachineParameter parameter) { return kInfo.at(static_cast<std::size_t>(parameter)); }

std::optional<MachineParameter> parse_parameter(std::string_view name) {
  for (std::size_t index = 0; index < kParameters; ++index) {
    if (name == kInfo.at(index).name) return static_cast<MachineParameter>(index);
  }
  return std::nullopt;
}

double Machine::operator[](MachineParameter parameter) const {
  const auto& value = values.at(static_cast<std::size_t>(parameter));
  if (value) return value->value;
  const std::optional<Default> own = default_of(*this, parameter);
  return own ? own->value : info_of(parameter).fallback;
}

Value Machine::value_of(MachineParameter parameter) const {
  const auto& value = values.at(static_cast<std::size_t>(parameter));
  if (value) return *value;
  if (const auto own = default_of(*this, parameter)) return {own->value, own->basis, own->source};
  const ParameterInfo& info = info_of(parameter);
  return Value{info.fallback, info.basis, info.source};
}

Machine without_calibration(Machine machine) {
  for (auto& value : machine.values) {
    if (value && value->basis == Basis::kCalibrated) value.reset();
  }
  return machine;
}

Machine without_fits(Machine machine) {
  for (auto& value : machine.values) {
    if (value && (value->basis == Basis::kCalibrated || value->basis == Basis::kPooled)) value.reset();
  }
  return machine;
}

std::optional<ErrorBar> error_bar(const Machine& machine, const std::string& kind) {
  const auto own = machine.held_out.find(kind);
  if (own != machine.held_out.end()) return ErrorBar{own->second, kind + ", left out of the class's fit", true};
  const auto largest = [](const std::map<std::string, ToldErrors>& all) {
    return std::max_element(all.begin(), all.end(),
                            [](const auto& one, const auto& other) { return one.second.p90 < other.second.p90; });
  };
  if (!machine.held_out.empty()) {
    const auto worst = largest(machine.held_out);
    return ErrorBar{worst->second, worst->first + ", left out of the class's fit, the worst there is", true};
  }
  if (machine.residuals.empty()) return std::nullopt;
  const auto worst = largest(machine.residuals);
  return ErrorBar{worst->second, worst->first + ", to which the class was fitted", false};
}

bool is_one_shot(const Machine& machine) {
  return std::any_of(machine.variants.begin(), machine.variants.end(),
                     [](const std::string& variant) { return variant.rfind("oneshot", 0) == 0; });
}

int nodes_of(const Machine& machine, int ranks) {
  return (ranks + machine.ranks_per_node - 1) / machine.ranks_per_node;
}

double nics_used(const Machine& machine, int ranks) {
  const double nics = machine[MachineParameter::kNics];
  if (ranks <= 0 || ranks >= machine.ranks_per_node) return nics;
  return std::min(nics, std::ceil(nics / machine.ranks_per_node) * ranks);
}

double wire_GBps(const Machine& machine, int ranks) {
  const double payload = machine[MachineParameter::kMtuBytes];
  const double share = payload / (payload + machine[MachineParameter::kPacketOverheadBytes]);
  return nics_used(machine, ranks) * machine[MachineParameter::kNicGBps] * share;
}

double node_GBps(const Machine& machine, int ranks) {
  return std::min(wire_GBps(machine, ranks) * machine[MachineParameter::kNicFraction],
                  machine[MachineParameter::kHostCapGBps]);
}

}  // namespace meshbed::models
