#pragma once
// The number of slots that a CPU second simulates: by the interpreter alone, and in a whole run.

#include "testbed/result/document.h"

namespace meshbed::testbed {

/// The interpreter (plugin/ring/kernel/step.h) alone in one thread, by the plain kernel and by the priority kernel:
/// slots that are published, claimed, run and done, in all about `slots` of them, the best of `repetitions`.
document::Section bench_interpreter(int slots, int repetitions);

/// Whole runs: a ring all-reduce by slots over the simulated mesh (what a slot costs more of many iterations than of
/// few), and queues of `items` slots a rank, 1 us apart, on 1, 4, 16 ... ranks up to `ranks_most`, each with one ring
/// and with four, of 64 slots and of 1024. Of each, besides, how many slots a second of virtual time may have, so that
/// it takes a minute.
document::Section bench_simulated_rings(int items, int ranks_most);

}  // namespace meshbed::testbed
