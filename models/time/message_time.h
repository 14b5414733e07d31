#pragma once
// Message time: perftest's curves from the NIC's parameters. Pure.
//
// *_bw, many messages in flight:  the larger of message (+ rendezvous) and S with headers over the rate, blended where
//                                 they are near one another (norm of order 4: two stages of a pipeline that jitter).
// *_lat, one message, one way:    wire + fetch where it is not inline + stored slices + S over the rate (+ rendezvous).

#include <cstdint>
#include <optional>
#include <string_view>

#include "models/time/machine.h"

namespace meshbed::models {

struct MessageTest {
  bool latency = false;
  bool read = false;
};

/// ib_write_bw, ib_send_lat, ib_read_bw, osu_latency, ucp_get, rdma_stream, ...; nothing for names that are none.
std::optional<MessageTest> parse_message_test(std::string_view name);

/// Microseconds: one way where `test` is a latency, else from one message to the next.
double message_us(const Machine& machine, const MessageTest& test, std::uint64_t bytes);

}  // namespace meshbed::models
