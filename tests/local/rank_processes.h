#pragma once
// Rank processes: N ranks of one communicator as processes of their own, over the local net plugin's file.
//
// The calling process has no threads at that time: a child has what it forked from.

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "plugin/coll/meshcoll.h"
#include "tests/coll/rank_threads.h"

namespace meshbed::test {

/// What became of a child: the signal that ended it (0: none), and what it said.
struct ProcessEnd {
  int signal = 0;
  std::string said;
};

/// Runs the bodies in children, which say what their bodies return; who has not ended after two minutes gets SIGALRM.
std::vector<ProcessEnd> run_children(const std::vector<std::function<std::string()>>& bodies);

/// Returns what is wrong; "": nothing.
using RankProcess = std::function<std::string(meshcoll_comm* comm, int rank)>;
/// Each between init and destroy. Rank, world and where they meet come of the launcher's variables, the rest of
/// `adjust`; an init that fails is said as "init: " and its error.
std::vector<ProcessEnd> run_rank_processes(int ranks, const AdjustOptions& adjust, const RankProcess& body);

/// Every one has ended by itself and said nothing.
void require_well(const std::vector<ProcessEnd>& ends);

std::string local_plugin();

}  // namespace meshbed::test
