#pragma once
// What RDMA makes of a scenario's bonds.

#include <string>
#include <vector>

#include "models/cluster.h"
#include "testbed/result/document.h"

namespace meshbed::testbed {

/// A line a bond: which function's RDMA device carries it, how fast, and what a lost link does to it. Of very many, the
/// first ones and how many more there are.
std::vector<std::string> bond_lines(const models::Cluster& cluster);
/// "bonds": the same of all bonds.
document::Table bond_table(const models::Cluster& cluster);
document::Table bond_table_shape();

}  // namespace meshbed::testbed
