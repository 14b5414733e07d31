#pragma once
// Import: files of machines to a scenario. The files are what `meshbed collect` writes (folders or archives, one a
// node), netplan YAML, output of ip, rdma, ibv_devinfo, show_gids, ibdev2netdev, lldpctl, ethtool, lspci and
// nvidia-smi, NCCL's topology and graph XML, InfraGraph and containerlab YAML. Pure functions of those files; any
// thread.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "testbed/import/facts.h"
#include "testbed/scenario/findings/findings.h"

namespace meshbed::testbed::hosts {

/// Values for what no file contains.
struct Assumptions {
  std::optional<std::uint64_t> rate_bps;    // of every port whose rate no file contains; else kAssumedRateBps
  std::optional<std::uint32_t> mtu_bytes;   // likewise; else 1500, Ethernet's
  std::string latency;                      // of every cable, "1us"; empty: the scenario's default
  std::string workload = "all_reduce:64M";  // COLLECTIVE:SIZE
};
inline constexpr std::uint64_t kAssumedRateBps = 100'000'000'000;
inline constexpr std::uint32_t kAssumedMtuBytes = 1500;

/// What no file contains, and what was taken in its place.
struct Assumed {
  std::string place;     // "s1/rocep1s0f0: rate"
  std::string value;     // "100Gb/s"
  std::string question;  // what answers it: "ethtool enp1s0f0np0 on s1"
};

/// Something about the files that the scenario cannot show: a contradiction between two of them, a cable of which one
/// end alone is known.
struct ImportFinding {
  Severity severity = Severity::kWarning;
  std::string code;   // "contradiction", "open-end", "no-mesh-nic", "ambiguous-cable", "unread"
  std::string place;  // "s1/rocep1s0f0"
  std::string cause;  // with the sources of what contradicts
  std::string fix;
};

struct Imported {
  std::string toml;  // the scenario, each value with a comment that names its source
  std::vector<ImportFinding> findings;
  std::vector<Assumed> assumed;
  Machines machines;  // what was read
};

/// Reads folders, archives (tar, also compressed) and single files, one or more nodes each. Throws std::runtime_error
/// where one cannot be read or is malformed ("FILE:LINE:COLUMN: cause; fix"), or where no NIC of a mesh is in any.
Imported import_machines(const std::vector<std::string>& paths, const Assumptions& assumptions);

/// The first half of it: the facts alone. `kind`, as in "no NICs": what the caller needs.
Machines read_machines(const std::vector<std::string>& paths);
/// Of one file's text, which belongs to the host `name`; `path` stands for the file in sources. Never crashes, on any
/// text (it is fuzzed). Throws std::runtime_error for malformed YAML, XML and JSON.
Machines read_text(const std::string& path, const std::string& text);

/// The second half. Throws std::runtime_error where no NIC of a mesh is in any machine.
Imported scenario_of(const Machines& machines, const Assumptions& assumptions);

}  // namespace meshbed::testbed::hosts
