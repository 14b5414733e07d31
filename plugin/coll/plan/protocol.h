#pragma once
// Protocol: how a slice travels. Pure.
//
//   simple  as it is, from the caller's memory and into it: nothing is copied, but that memory must be registered
//   ll      in lines of 16 bytes, 8 of data and 8 of flags: data1 flag1 data2 flag2, 4 bytes each
//   ll128   in lines of 128 bytes, 120 of data and a flag of 8
// The last two are NCCL's layouts (src/include/device.h: ncclLLFifoLine, NCCL_LL128_LINEELEMS), and their slots its
// default ones: a buffer of 512 KiB or 4.69 MiB in 8 steps. They go through memory of the engine's own, registered once
// for each connection, so that small messages from memory that is not registered cost two copies instead of a
// registration. Where NCCL's GPU waits for the flags, the engine asks the plugin, and the flags are the proof: each
// line carries the number and the size of its message, so a completion that came before its data is an error, not
// wrong data.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace meshbed::coll {

enum class Protocol : std::uint8_t { kSimple = 0, kLl = 1, kLl128 = 2 };
inline constexpr int kProtocols = 3;

/// "simple", "ll", "ll128".
const char* name_of(Protocol protocol);
std::optional<Protocol> parse_protocol(std::string_view name);
/// Those names.
std::vector<std::string> protocol_names();

/// One byte of data each for kSimple.
struct LineFormat {
  std::uint64_t line_bytes = 1, data_bytes = 1;
  std::uint64_t slot_bytes = 0;  // on the wire, of the largest message; 0: as the caller has it
};
constexpr LineFormat format_of(Protocol protocol) {
  switch (protocol) {
    case Protocol::kLl:
      return {.line_bytes = 16, .data_bytes = 8, .slot_bytes = 65536};
    case Protocol::kLl128:
      return {.line_bytes = 128, .data_bytes = 120, .slot_bytes = 614400};
    case Protocol::kSimple:
      break;
  }
  return {};
}
/// Bytes on the wire of a message of so many, and the most that a message of so many on the wire has.
constexpr std::uint64_t lined_bytes(Protocol protocol, std::uint64_t size_bytes) {
  const LineFormat format = format_of(protocol);
  return (size_bytes + format.data_bytes - 1) / format.data_bytes * format.line_bytes;
}
constexpr std::uint64_t unlined_bytes(Protocol protocol, std::uint64_t wire_bytes) {
  const LineFormat format = format_of(protocol);
  return wire_bytes / format.line_bytes * format.data_bytes;
}
/// The largest slice, where the caller's is `slice_bytes`.
constexpr std::uint64_t slice_bytes_of(Protocol protocol, std::uint64_t slice_bytes) {
  const std::uint64_t most = unlined_bytes(protocol, format_of(protocol).slot_bytes);
  return protocol == Protocol::kSimple || slice_bytes < most ? slice_bytes : most;
}

/// Of message `number` on its connection, of so many bytes: in each of its lines.
std::uint64_t flag_of(std::uint64_t number, std::uint64_t size_bytes);
/// Writes lined_bytes() to `lines`; behind the data the last one has zeros. Not for kSimple.
void write_lines(Protocol protocol, std::uint64_t flag, const void* data, std::uint64_t size_bytes, void* lines);
/// False, and nothing is written: a line has another flag.
bool read_lines(Protocol protocol, std::uint64_t flag, const void* lines, void* data, std::uint64_t size_bytes);

}  // namespace meshbed::coll
