#pragma once
// Questions about a cluster's cabling, and their answers as documents: why a node does not reach another one, which
// single failures partition it, which environment stock NCCL needs, and the effects of a change of a scenario. Nothing
// is run; each "no" comes with the command of a run that demonstrates it.
//
// Nomenclature: way - one NIC of a node towards another node; obstacle - why it does not lead there.

#include <string>
#include <vector>

#include "testbed/result/document.h"
#include "testbed/scenario/scenario.h"

namespace meshbed::testbed {

/// An index in the cluster's nodes. Throws std::runtime_error with the closest name where there is no such node.
int node_named(const Scenario& scenario, const std::string& name);

/// Whether node `from` reaches node `to`, for the Mesh plugin and for stock NCCL 2.30.7, each of its NICs with what
/// lies in its way.
document::Document why_document(const Scenario& scenario, int from, int to);

/// The cables, switches, NICs and nodes whose loss partitions the others, each alone, although Mesh relays. Cost: a
/// search from all nodes for each of them. Throws std::runtime_error above kCutNodesMost nodes.
document::Document cuts_document(const Scenario& scenario);
inline constexpr std::size_t kCutNodesMost = 256;

/// The smallest environment under which stock NCCL works on the cabling, or why none does. Each claim names the lines
/// of NCCL's source that it rests on.
document::Document environment_document(const Scenario& scenario);

/// The differences between two scenarios and their effects: on reachability, on findings, and on the lower bound of the
/// workload's time.
document::Document difference_document(const Scenario& older, const Scenario& newer);

/// "meshbed run FILE --set KEY=VALUE...", for a shell.
std::string run_command_text(const Scenario& scenario, const std::vector<std::string>& settings);
/// A run in which a rank of `from` sends to one of `to`, that must fail with an error which contains `error`.
/// `without`: NICs whose links are down, as "node.NODE.nic.DEVICE.link=down"; `lost_node`: runs no rank, -1: none.
std::string failing_send_command(const Scenario& scenario, int from, int to, const std::string& error,
                                 const std::vector<std::string>& without = {}, int lost_node = -1);

}  // namespace meshbed::testbed
