#pragma once
// Rank threads: N ranks of one communicator as threads of this process, over the loopback net.

#include <doctest/doctest.h>

#include <functional>
#include <string>

#include "plugin/coll/meshcoll.h"
#include "tests/coll/loopback_net.h"
#include "tests/support/free_address.h"

namespace meshbed::test {

/// Options of a rank that the caller may adjust before init.
using AdjustOptions = std::function<void(meshcoll_options&)>;
using RankBody = std::function<void(meshcoll_comm* comm, int rank)>;

/// Runs `body` on every rank between init (which must succeed) and destroy; checks afterwards that the plugin has
/// nothing open.
void run_ranks(int ranks, const AdjustOptions& adjust, const RankBody& body);

inline std::string error_of(meshcoll_comm* comm) { return meshcoll_last_error(comm); }
inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace meshbed::test
