// What requests and responses are on the wire: bytes, packets, times, and whether they get through.

#include <algorithm>
#include <array>

#include "models/link.h"
#include "sim/verbs/system.h"

namespace meshbed::sim::verbs {
namespace {

constexpr std::uint32_t kAtomicAckBytes = 8;  // the original value

std::uint32_t packet_overhead(const QueuePair& qp) {
  const std::uint32_t tag = qp.route.vlan == 0 ? 0 : models::kVlanTagBytes;
  return tag + models::kEthernetOverheadBytes + qp.route.headers_bytes;
}

/// Packets of `flight` before the first that a port's Shape loses or lets be overtaken; Flight::left: none is.
std::uint32_t packets_before_loss(System& system, const QueuePair& sender, std::uint32_t left) {
  const models::PortRef port = sending_port(sender);
  const Shape& shape = system.network.shape(port);
  if (shape.loss <= 0 && shape.reorder <= 0) return left;
  const double passes = (1 - shape.loss) * (1 - shape.reorder);
  Prng& dice = system.port(port).dice;
  for (std::uint32_t packet = 0; packet < left; ++packet) {
    if (!dice.chance(passes)) return packet;
  }
  return left;
}

}  // namespace

std::uint64_t request_wire_bytes(const QueuePair& qp, unsigned opcode, std::uint64_t payload_bytes) {
  const std::uint32_t pmtu = mtu_bytes(qp.attr.path_mtu);
  const std::uint32_t overhead = packet_overhead(qp);
  if (is_read(opcode)) return models::wire_bytes(0, pmtu, models::kRethBytes, overhead);
  if (is_atomic(opcode)) return models::wire_bytes(0, pmtu, models::kAtomicBytes, overhead);
  const bool write = opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  const std::uint32_t extended = (write ? models::kRethBytes : 0) + (has_imm(opcode) ? models::kImmBytes : 0);
  return models::wire_bytes(payload_bytes, pmtu, extended, overhead);
}

std::uint64_t response_wire_bytes(const QueuePair& responder, const SendEntry& entry) {
  const std::uint32_t pmtu = mtu_bytes(responder.attr.path_mtu);
  const std::uint32_t overhead = packet_overhead(responder);
  if (is_atomic(entry.opcode)) return models::wire_bytes(0, pmtu, models::kAethBytes + kAtomicAckBytes, overhead);
  // The first and the last packet of a read response carry the acknowledgement header; they may be the same packet.
  const std::uint32_t headers = models::packets(entry.payload_bytes, pmtu) == 1 ? 1 : 2;
  return models::wire_bytes(entry.payload_bytes, pmtu, headers * models::kAethBytes, overhead);
}

std::uint32_t packets_of(const QueuePair& qp, unsigned opcode, std::uint64_t payload_bytes) {
  if (is_atomic(opcode)) return 1;
  return static_cast<std::uint32_t>(models::packets(payload_bytes, mtu_bytes(qp.attr.path_mtu)));
}

Picoseconds rnr_timer_ps(std::uint8_t code) {
  constexpr Picoseconds kUnit = 10 * kPicosecondsPerMicrosecond;
  constexpr std::array<std::int32_t, 32> kUnits{65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
                                                48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
                                                2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
  return kUnits[code % kUnits.size()] * kUnit;
}

Picoseconds ack_timeout_ps(std::uint8_t timeout) {
  constexpr Picoseconds kUnit = 4096 * kPicosecondsPerNanosecond;
  return timeout == 0 ? -1 : kUnit << timeout;
}

models::PacketTrain request_train(const QueuePair& qp, unsigned opcode, std::uint64_t payload_bytes) {
  models::PacketTrain train{.pmtu_bytes = mtu_bytes(qp.attr.path_mtu), .headers_bytes = qp.route.headers_bytes};
  if (is_atomic(opcode)) {
    train.first_bytes = models::kAtomicBytes;
  } else if (is_read(opcode)) {
    train.first_bytes = models::kRethBytes;
  } else {
    const bool write = opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    train.payload_bytes = payload_bytes;
    train.first_bytes = write ? models::kRethBytes : 0;
    train.last_bytes = has_imm(opcode) ? models::kImmBytes : 0;
  }
  return train;
}

models::PacketTrain response_train(const QueuePair& requester, const SendEntry& entry) {
  models::PacketTrain train{.payload_bytes = entry.payload_bytes,
                            .pmtu_bytes = mtu_bytes(requester.attr.path_mtu),
                            .headers_bytes = requester.route.headers_bytes,
                            .first_bytes = models::kAethBytes};
  // A response of one packet has one such header.
  if (train.count() > 1) train.last_bytes = models::kAethBytes;
  return train;
}

void let_through(System& system, const QueuePair& sender, Flight& flight) {
  const bool leaves = sender.route.path != nullptr;
  flight.through = leaves ? packets_before_loss(system, sender, flight.left) : flight.left;
  flight.shown = flight.through + 1;
}

void drop_oversized(const QueuePair& sender, const models::PacketTrain& train, Flight& flight) {
  const std::uint32_t mtu = sender.route.path->mtu_bytes;
  // Places in the whole message, of which the last `left` packets are sent now.
  const std::uint32_t end = flight.from + flight.left;
  const std::uint32_t dropped = std::min(models::next_packet(train, flight.from, mtu, false), end);
  flight.through = std::min(flight.through, dropped - flight.from);
  if (flight.through == flight.left) return;
  const std::uint32_t behind = flight.from + flight.through + 1;
  flight.shown = std::min(models::next_packet(train, behind, mtu, true), end) - flight.from;
}

std::uint64_t flight_wire_bytes(const QueuePair& sender, const Flight& flight, std::uint64_t payload_bytes,
                                std::uint64_t whole) {
  const std::uint32_t sent = std::min(flight.left, flight.shown + 1);
  if (flight.from == 0 && sent == flight.left) return whole;
  const std::uint64_t pmtu = mtu_bytes(sender.attr.path_mtu);
  const std::uint64_t begin = std::min(payload_bytes, flight.from * pmtu);
  const std::uint64_t end = std::min(payload_bytes, (std::uint64_t{flight.from} + sent) * pmtu);
  return models::wire_bytes(end - begin, static_cast<std::uint32_t>(pmtu), 0, packet_overhead(sender));
}

Picoseconds one_way_ps(const System& system, const Path* path, models::PortRef from) {
  return path != nullptr ? path->latency_ps + system.network.shape(from).delay_ps : 0;
}

void put_on_wire(System& system, const QueuePair& qp, std::uint64_t wire_bytes, std::uint64_t flow, EventFunction done,
                 Flight& flight) {
  if (qp.route.path != nullptr) {
    system.fabric.transfer(*qp.route.path, wire_bytes, flow, done, &flight, 0);
    return;
  }
  // Loopback stays within the adapter, at its port's rate.
  const models::PortRef port = qp.context->port;
  system.world.after(wire_time_ps(wire_bytes, nic_of(system, port).rate_bps), port.node, done, &flight, 0);
}

}  // namespace meshbed::sim::verbs
