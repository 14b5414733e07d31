#pragma once
// Files that set up a scenario's cluster: netplan files, a list of its cables, and the environment of its jobs.

#include <string>

#include "testbed/scenario/scenario.h"

namespace meshbed::testbed {

/// /etc/netplan/60-meshbed.yaml of a node (netplan version 2): MTU, addresses, VLANs and routes of each NIC that has an
/// address, and bonds with theirs.
std::string netplan_of(const models::Node& node);

/// CSV, a line for each cable and each switch port: "cable,from,to,subnet,rate".
std::string cable_list(const models::Cluster& cluster);

/// Shell assignments for a job's processes with Meshbed's plugin, and as comments those for NCCL's own transport.
std::string job_environment(const Scenario& scenario);

}  // namespace meshbed::testbed
