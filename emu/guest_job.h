#pragma once
// The job folder: a node's input, file by file (read by emu/guest_init.sh, which lists them), and its output.

#include <string>
#include <vector>

#include "emu/cluster.h"

namespace meshbed::emu {

/// The texts of the files, for node `index` of a cluster that check_cluster() let pass. `folder`: the job folder.
std::string node_text(const EmuNode& node, const std::string& folder);
std::string hosts_text(const EmuCluster& cluster);
std::string nics_text(const EmuCluster& cluster, int index);
std::string gids_text(const EmuNode& node);
std::string command_text(const EmuNode& node, const std::vector<std::string>& command, const std::string& folder);

/// The management NIC's address, unlike all of the cluster's other MAC addresses.
std::string management_mac(const EmuCluster& cluster, int index);

/// Writes all of them. Throws std::runtime_error.
void write_job(const EmuCluster& cluster, int index, const std::string& folder);

/// A command's files in the job folder.
std::string command_file(const std::string& folder, int command, const std::string& suffix);

}  // namespace meshbed::emu
