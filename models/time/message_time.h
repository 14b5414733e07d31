#pragma once
// Message time: perftest's curves from the NIC's parameters. Pure.
//
// *_bw, many messages in flight:  the larger of message (+ rendezvous) and S with headers over the rate, blended where
//                                 they are near one another (norm of order 4: two stages of a pipeline that jitter).
// both ways at once:              half of that for the sum of both directions, each at duplex_fraction of its rate.
// *_lat, one message, one way:    wire + fetch where it is not inline + stored slices + S over the rate (+ rendezvous).
// batch of B messages, waited for: launch + the larger of B messages and B S over the rate (blended) + ramp; S is all
// of it.

#include <cstdint>
#include <optional>
#include <string_view>

#include "models/time/machine.h"

namespace meshbed::models {

struct MessageTest {
  bool latency = false;
  bool read = false;
  bool both_ways = false;  // the sum of both directions' rates
  int batch = 0;           // messages posted together and waited for; 0: an endless stream
};

/// ib_write_bw, ib_send_lat, ib_read_bw, osu_latency, osu_bibw, ucp_get, rdma_stream, ...; rdma_write, rdma_read and
/// send are a batch of one message. Nothing for names that are none.
std::optional<MessageTest> parse_message_test(std::string_view name);

/// Microseconds: one way where `test` is a latency, else from one message to the next; of a batch all of it, `bytes`
/// being those of all its messages.
double message_us(const Machine& machine, const MessageTest& test, std::uint64_t bytes);

}  // namespace meshbed::models
