#include "sim/trace/digest.h"

#include <fmt/format.h>

#include <array>
#include <bit>

namespace meshbed::sim {

static_assert(std::endian::native == std::endian::little, "the digest is over little-endian words");

Digest::Digest() : state_(XXH3_createState()) { XXH3_64bits_reset(state_.get()); }

void Digest::add(const MessageRecord& record) {
  const auto port = [](const models::PortRef& ref) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(ref.node)) << 32U |
           static_cast<std::uint32_t>(ref.nic);
  };
  const auto pair = [](auto high, auto low) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(high)) << 32U | static_cast<std::uint32_t>(low);
  };
  // One call a message: the words of the record, in the order of its members.
  const std::array<std::uint64_t, 13> words{static_cast<std::uint64_t>(record.posted_ps),
                                            static_cast<std::uint64_t>(record.started_ps),
                                            static_cast<std::uint64_t>(record.delivered_ps),
                                            static_cast<std::uint64_t>(record.completed_ps),
                                            record.payload_bytes,
                                            record.wire_bytes,
                                            record.sequence,
                                            pair(record.source_rank, record.destination_rank),
                                            port(record.source),
                                            port(record.destination),
                                            pair(record.source_qp, record.destination_qp),
                                            pair(record.opcode, record.status),
                                            pair(record.tries, record.deliveries)};
  XXH3_64bits_update(state_.get(), words.data(), sizeof words);
}

void Digest::add(std::uint64_t value) { XXH3_64bits_update(state_.get(), &value, sizeof value); }

void Digest::add(std::string_view text) {
  add(static_cast<std::uint64_t>(text.size()));
  XXH3_64bits_update(state_.get(), text.data(), text.size());
}

std::uint64_t Digest::value() const { return XXH3_64bits_digest(state_.get()); }
std::string Digest::hex() const { return fmt::format("{:016x}", value()); }

}  // namespace meshbed::sim
