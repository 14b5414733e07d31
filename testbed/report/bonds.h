#pragma once
// What RDMA makes of a scenario's bonds, for people.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/cluster.h"

namespace meshbed::testbed {

/// A line a bond: which function's RDMA device carries it, how fast, and what a lost link does to it. Of very many, the
/// first ones and how many more there are.
std::vector<std::string> bond_lines(const models::Cluster& cluster);
/// The same of all bonds, for programs: [{"node", "name", "mode", "roce_lag", "device", "functions", "rate_bps",
/// "queue_pair_rate_bps"}].
nlohmann::ordered_json bonds_json(const models::Cluster& cluster);

}  // namespace meshbed::testbed
