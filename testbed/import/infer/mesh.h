#pragma once
// Mesh: which NICs of the machines belong to the mesh, what they are called, and which of them one cable or switch
// joins, with the evidence. Pure functions of facts.

#include <cstddef>
#include <string>
#include <vector>

#include "testbed/import/import.h"

namespace meshbed::testbed::hosts {

/// A NIC of a host: positions in Machines::hosts and HostFacts::nics.
struct Port {
  std::size_t host = 0, nic = 0;
  bool operator==(const Port&) const = default;
  auto operator<=>(const Port&) const = default;
};

struct FoundCable {
  std::string name;
  Port ends[2];
  std::optional<std::uint64_t> rate_bps;  // where a file gives it
  bool is_given = false;                  // a file names it
  std::string evidence;                   // "both are in subnet 192.168.100.0/24"
};

struct FoundSwitch {
  std::string name;
  std::vector<Port> ports;
  bool is_given = false;  // a file names its cables
  std::string evidence;
};

/// What no file contains, in the order in which it was missed; equal ones of several places are joined.
class AssumedList {
 public:
  void add(const std::string& what, const std::string& place, const std::string& value, const std::string& question);
  std::vector<Assumed> all() const;

 private:
  struct Entry {
    std::string what, value, question;
    std::vector<std::string> places;
  };
  std::vector<Entry> entries_;
};

struct Mesh {
  Machines machines;
  std::vector<FoundCable> cables;
  std::vector<FoundSwitch> switches;
  std::vector<ImportFinding> findings;
  AssumedList assumed;

  const HostFacts& host_of(Port port) const { return machines.hosts.at(port.host); }
  const NicFacts& nic_of(Port port) const { return host_of(port).nics.at(port.nic); }
  std::string name_of(Port port) const;  // "s1/rocep1s0f0"
  std::vector<Port> ports() const;       // of the mesh, by host and NIC
  /// Ports with the same name are functions of one connector, "s1/qsfp0", or members of one bond, "s1/bond0".
  std::string connector_of(Port port) const;
  /// Its bond, and the position in it; nullptr: it is in none.
  const BondFacts* bond_of(Port port) const;
  std::size_t place_in_bond(Port port) const;
  /// The port that has the addresses: of a bond the first member, else itself.
  Port addressed(Port port) const;
};

/// Unique node names that a scenario accepts; VLANs, bridges and bonds folded; no_mesh and devices set.
/// Throws std::runtime_error where no NIC is left.
void choose_nics(Mesh& mesh);
/// Whether all NICs of the node are a Spark's functions, by name, and a file says or the names show that it is one.
bool is_spark(const HostFacts& host);
/// Cables and switches between the chosen NICs.
void find_cables(Mesh& mesh);
/// Ends of cables by their addresses, then by host; cables likewise; each cable and switch with a name of its own.
void order_and_name(Mesh& mesh);
/// Addresses for ends of given cables that have none.
void assign_addresses(Mesh& mesh);

}  // namespace meshbed::testbed::hosts
