// libFuzzer target: what relays take from others. The first byte chooses: a discovery message as it is, one with a
// fitting checksum, a route in front of a handshake, or the header of a piece.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "plugin/net/wire/discovery_message.h"
#include "plugin/net/wire/neighbour_map.h"
#include "plugin/net/wire/piece.h"
#include "plugin/net/wire/wire.h"

using namespace meshbed::net;

namespace {

void try_discovery_message(std::span<const std::uint8_t> bytes) {
  const auto discovery_message = decode_discovery_message(bytes);
  if (!discovery_message) return;
  NeighbourMap map;
  map.add(discovery_message->node, {.process = discovery_message->process,
                                    .port = discovery_message->circuit_port,
                                    .addresses = discovery_message->addresses});
  const std::vector<Nic> nics;
  (void)map.chain({.nics = &nics, .node = 1, .target = 2, .target_addresses = discovery_message->addresses});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::span<const std::uint8_t> input(data + 1, size - 1);
  std::array<std::uint8_t, kDiscoveryMessageLargestBytes> copy{};
  const std::size_t length = std::min(input.size(), copy.size());
  std::copy_n(input.begin(), length, copy.begin());
  switch (data[0] % 4) {
    case 0:
      try_discovery_message(input);
      break;
    case 1:
      if (length < sizeof(std::uint32_t)) break;
      ByteWriter(std::span(copy).subspan(length - 4)).u32(checksum_of(std::span(copy).first(length - 4)));
      try_discovery_message(std::span<const std::uint8_t>(copy).first(length));
      break;
    case 2:
      (void)decode_message(input);
      break;
    default: {
      PieceHeader header;
      std::memcpy(&header, copy.data(), sizeof header);
      (void)problem_of(header, header.circuit, header.sequence);
      break;
    }
  }
  return 0;
}
