#pragma once
// Readers: one for each format. Each takes what it knows from a part into the facts of its host, with sources, and
// returns whether it knew anything there. Those of YAML, XML and JSON throw std::runtime_error for malformed text.

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "testbed/import/facts.h"
#include "testbed/import/read/parts.h"

namespace meshbed::testbed::hosts {

/// What a file may speak about: its own host, and other nodes with cables between them.
struct Reading {
  HostFacts& host;
  Machines& others;  // nodes, cables and switches of containerlab's and InfraGraph's files
};

bool read_yaml(const Part& part, Reading& into);  // netplan, containerlab, InfraGraph
bool read_xml(const Part& part, Reading& into);   // NCCL's topology and graph, nvidia-smi -q -x
bool read_json(const Part& part, Reading& into);  // ip -j, rdma -j, lldpctl -f json, InfraGraph
/// NetworkManager's connections, systemd's .network files.
bool read_key_file(const Part& part, Reading& into);
/// Output of commands, one or several in one text: each of its readers takes the lines that it knows.
bool read_lines(const Part& part, Reading& into);

/// The reader that fits the part's name and first character.
bool read_part(const Part& part, Reading& into);

// Of YAML alone.
bool read_infragraph(const nlohmann::json& graph, const Part& part, Machines& machines);
/// A graph of the layout before edges (its versions of 2025, with connections), in the present one; others as they are.
nlohmann::json in_present_layout(const nlohmann::json& graph, const Part& part);
/// Throws std::runtime_error with the place of `word` in the part.
[[noreturn]] void refuse_at(const Part& part, const std::string& word, const std::string& cause);

// Of lines: each is asked for every line, in their order.
class LineReader {
 public:
  LineReader() = default;
  virtual ~LineReader() = default;
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;
  /// `words`: the line's, split at blanks. True: it knew the line.
  virtual bool take(const std::string& line, const std::vector<std::string>& words, const std::string& source) = 0;
  /// Another reader took a line that is not indented: indented ones behind it are not this reader's. Also at the end.
  virtual void end_block() {}
};
std::vector<std::unique_ptr<LineReader>> ip_readers(HostFacts& host);     // ip addr, link, route, neigh, `ip` commands
std::vector<std::unique_ptr<LineReader>> verbs_readers(HostFacts& host);  // ibv_devinfo, show_gids, ibdev2netdev, rdma
std::vector<std::unique_ptr<LineReader>> machine_readers(HostFacts& host);  // ethtool, lspci, lldpctl, sysfs, env

// Shared by readers.
std::string lower(std::string text);
/// "fe80:0000:...": 16 bytes; nullopt: it is no GID.
std::optional<models::RawGid> parse_gid(const std::string& text);
/// "0000:01:00.0" of "01:00.0", "0000:01:00.0" or "00000000:01:00.0", lower case; empty: it is none.
std::string pci_address(const std::string& text);
/// "32", "2000": nullopt unless all of it is digits and at most `most`.
std::optional<std::uint64_t> parse_digits(std::string_view text, std::uint64_t most);
/// The generation of PCIe whose lane carries so many GT/s: 2.5, 5, 8, 16, 32, 64; 0: there is none.
int pcie_generation(double gigatransfers);
/// An option of a bond under its name in sysfs, ip, netplan, NetworkManager or systemd; others are left out.
void take_bond_option(NicFacts& bond, const std::string& name, const std::string& value, const std::string& source,
                      Origin origin = Origin::kObserved);
/// Linux' mode where a file makes a bond and gives none: balance-rr.
void take_bond_default(NicFacts& bond, const std::string& source);
void add_address(NicFacts& nic, const std::string& text, const std::string& source, bool is_dynamic = false);

}  // namespace meshbed::testbed::hosts
