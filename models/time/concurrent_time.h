#pragma once
// Concurrent time: what several collectives take that start at once on one machine, each in a communicator and stream
// of its own, and what computing beside a call hides of it. Pure.
//
// Nomenclature: T - a call's time alone (collective_time.h); start - its part that needs neither wire nor memory
// (launch, set-up, hops); work - the rest; use - the part of the wire's rate that the call takes while it works, less
// than 1 only where its channels are slower than the wire; sharing - what all calls take at least, if nothing else
// delays them: the largest of the T, of the least start and all bytes on the wire, and of the least start and all sums
// and copies; serial - the sum of the T, one call behind the other.
//
// At once = starts overlap, then the calls that are at work share wire and memory in equal parts, no call more than it
// uses alone: sharing <= at once <= serial. No measured file has calls at once, so the interval goes from sharing at
// the low end of the calls' intervals to serial at the high end.
//
// Before NCCL 2.26 a program had to put the calls of several communicators in one order, which is serial. Since then
// NCCL keeps the order of their launches alone, and from CUDA 12.3 on their kernels run side by side (v2.30.7-1,
// docs/userguide/source/usage/communicators.rst:302). SMs that their channels compete for are not modelled.
// Cost: O(calls^2).

#include <string>
#include <vector>

#include "models/time/collective_time.h"
#include "models/time/interval.h"

namespace meshbed::models {

struct ConcurrentCall {
  CollectiveCall call;
  CollectiveTime alone;
  Interval of_alone;
  double us = 0;                   // from the start of all to its own end
  double low_us = 0, high_us = 0;  // alone at its low end; behind all others
};

struct ConcurrentTime {
  std::vector<ConcurrentCall> calls;  // in the order given
  double us = 0;                      // until the last ends
  double sharing_us = 0, serial_us = 0;
  double low_us = 0, high_us = 0;
};

/// `calls`: one or more. Of one call its own time and interval.
ConcurrentTime concurrent_time(const Machine& machine, const std::vector<CollectiveCall>& calls);

/// SMs that a call's kernel holds: a block, and so an SM, for each channel (NCCL v2.30.7-1, src/enqueue.cc:1758).
/// `expected`: by size of the class's `channels`, or of two for each adapter of a rank where the class has none
/// (src/graph/connect.cc:460 doubles the rings found). least, most: the range of a class without a value, most by size
/// of NCCL's 64 (src/include/device.h:91); of kernels that are not NCCL's at any size.
struct HeldSms {
  double expected = 1, least = 1, most = 1;
};
HeldSms held_sms(const Machine& machine, const CollectiveCall& call);

/// Computing beside communication.
struct Overlap {
  double compute_us = 0;  // without communication
  double share = 0;       // of it, what does not wait for the communication, 0 to 1
  double held = 0;        // part of the GPU's SMs that the communication's kernels hold, 0 to 1
};
/// What communication of `us` adds to the computing's time: the larger of what is left beyond the share of computing,
/// us - share compute, and of what the held SMs slow it down, held us. All of it without a share. The memory rate that
/// both use is not modelled.
double exposed_us(double us, const Overlap& overlap);

}  // namespace meshbed::models
