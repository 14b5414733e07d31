#pragma once
// Machine: a class of machines as physical parameters, each with the source of its value. The formulas that read them
// are beside it; its form as a file is models/time/machine_profile.h, the files are models/profiles.
//
// Nomenclature: node - what shares NICs; share - S / n, one rank's part of a collective; hop - from one rank to the
// next; payload rates in GB/s are 1e9 bytes a second, of one node and direction unless stated.

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/profile.h"

namespace meshbed::models {

enum class MachineParameter : std::uint8_t {
  kLaunchUs,
  kEagerUs,
  kBarrierUs,
  kPairsUs,
  kPeerUs,
  kRootedAsAll,
  kSkewUs,
  kChannels,
  kChannelGBps,
  kNetLlUs,
  kNetLl128Us,
  kNetSimpleUs,
  kNetLatencyUs,
  kIntraLlUs,
  kIntraLl128Us,
  kIntraSimpleUs,
  kNics,
  kNicGBps,
  kMtuBytes,
  kPacketOverheadBytes,
  kHostCapGBps,
  kNicFraction,
  kIntraGBps,
  kLlFraction,
  kLl128Fraction,
  kTreeFraction,
  kLlMaxBytes,
  kLl128MaxBytes,
  kTreeMaxBytes,
  kFillStages,
  kSliceBytes,
  kRampDepth,
  kRampUs,
  kLlWindowBytes,
  kLlSpillGBps,
  kReduceGBps,
  kCopyGBps,
  kWaveBytes,
  kWaveUs,
  kDuplexFraction,
  kMessageUs,
  kReadMessageUs,
  kReadFraction,
  kWireUs,
  kInlineBytes,
  kDmaUs,
  kRendezvousBytes,
  kRendezvousUs,
  kEpByNic,
  kEpMessageUs,
  kEpPeerUs,
  kEpPeerGBps,
  kEpSms,
  kEpSmGBps,
  kEpSmTokenUs,
  kEpCombineFraction,
  kEpCombineCost,
  kNaiveStepUs,
  kNaiveGBps,
};
inline constexpr std::size_t kParameters = static_cast<std::size_t>(MachineParameter::kNaiveGBps) + 1;

struct ParameterInfo {
  const char* name;  // in a profile's file; the unit stands last
  double low, high;  // what is plausible; a file or a fit outside of it is refused
  double fallback;   // where a profile is silent
  Basis basis;       // of the fallback
  const char* source;
  const char* meaning;
};
const ParameterInfo& info_of(MachineParameter parameter);
std::optional<MachineParameter> parse_parameter(std::string_view name);

struct Value {
  double value = 0;
  Basis basis = Basis::kGuess;
  std::string source;                                // never empty in a profile that was read
  std::optional<std::pair<double, double>> range{};  // of a guess in a profile always; of the others where it is known
};

/// How the nodes are cabled, for any number of them.
enum class Cabling : std::uint8_t {
  kSwitch,  // everyone reaches everyone
  kRing,    // each node its two neighbours; what goes further is relayed
  kMesh,    // a cable for each pair
};
const char* name_of(Cabling cabling);  // switch ring mesh
std::optional<Cabling> parse_cabling(std::string_view name);

/// What carries the bytes: which constants of the library hold, and which other classes a class is like.
enum class MachineTransport : std::uint8_t {
  kNone,     // not given
  kVerbs,    // RoCE or InfiniBand, NIC to GPU memory
  kStaged,   // the same by way of host memory
  kUnified,  // the same where GPU and host share one memory
  kEfa,
  kTcp,   // kernel sockets
  kTcpx,  // GPUDirect-TCPX and TCPXO
  kSlingshot,
  kWithin,   // one node: PCIe or NVLink
  kKernel,   // a persistent kernel rings the doorbells, or waits for the thread that does
  kMessage,  // point-to-point
  kExpert,   // dispatch and combine of a mixture of experts
};
const char* name_of(
    MachineTransport transport);  // none verbs staged unified efa tcp tcpx slingshot within kernel message expert
std::optional<MachineTransport> parse_transport(std::string_view name);

struct Machine {
  std::string name, description;
  std::vector<std::string> classes;   // topology_class lines of measured files that are of this class
  std::vector<std::string> keywords;  // of set-ups, where several profiles have a class
  std::vector<std::string> variants;  // beginnings of a row's variant, where one file has several kinds of software
  std::vector<std::string> fitted_on;
  Cabling cabling = Cabling::kSwitch;
  MachineTransport transport = MachineTransport::kNone;
  int ranks_per_node = 1;
  std::array<std::optional<Value>, kParameters> values;
  std::map<std::string, ToldErrors> residuals, held_out;  // of the profile that was read; see models/profile.h
  std::map<std::string, MeasuredSizes> measured;          // likewise, by kind of call (models/time/interval.h)
  std::string library;                                    // whose calls it was fitted to; "": NCCL's, or perftest's

  double operator[](MachineParameter parameter) const;
  /// The value in force, or the fallback with its source.
  Value value_of(MachineParameter parameter) const;
  void set(MachineParameter parameter, Value value) { values[static_cast<std::size_t>(parameter)] = std::move(value); }
  void clear(MachineParameter parameter) { values[static_cast<std::size_t>(parameter)].reset(); }
};

/// The machine without the values that were fitted to its class: other classes' values or fallbacks in their place.
Machine without_calibration(Machine machine);
/// The machine without any fitted value, of any class: data sheets, constants and guesses.
Machine without_fits(Machine machine);

/// Whether its kernels send all of a rank's input to every other rank at once, and no plan of NCCL's.
bool is_one_shot(const Machine& machine);

/// Ranks to nodes by the machine's own rule: as few as hold them.
int nodes_of(const Machine& machine, int ranks);

/// How far off a prediction may be: the errors of the class, and of what they are.
struct ErrorBar {
  ToldErrors errors;
  std::string of;  // "all_reduce, 4 ranks, left out of the fit", "the files that it was fitted to"
  bool is_held_out = false;
};
/// Of `kind` ("all_reduce, 4 ranks") held out of the class's fit, where the profile has that; else the largest of what
/// was held out; else the largest of its residuals. Nothing where the profile has neither.
std::optional<ErrorBar> error_bar(const Machine& machine, const std::string& kind);

/// NICs of a node that `ranks` of its GPUs use: each GPU the ones nearest to it, so that of 8 GPUs and 8 NICs one GPU
/// uses one. NCCL takes those first that are as near as any, and their number for each GPU is that of the near NICs
/// over that of the GPUs near to them, rounded up (src/graph/topo.cc: ncclTopoGetLocal, ncclTopoGetLocalNet;
/// src/graph/search.cc: ncclTopoSelectNets; v2.30.7). `ranks` of 0: all of them.
double nics_used(const Machine& machine, int ranks);
/// Payload that those NICs carry in one direction at most: their rate less each packet's headers.
double wire_GBps(const Machine& machine, int ranks = 0);
/// What of it the library reaches, or what the host feeds where that is less.
double node_GBps(const Machine& machine, int ranks = 0);

}  // namespace meshbed::models
