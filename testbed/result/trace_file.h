#pragma once
// TraceFile: messages.csv of a results folder, read back.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace meshbed::testbed {

struct TracedMessage {
  std::int64_t posted_ps = -1, started_ps = -1, delivered_ps = -1, completed_ps = -1;  // -1: not known
  int source_rank = -1, destination_rank = -1;
  std::string source, destination;          // "node0/rocep1s0f0"
  std::string source_gid, destination_gid;  // "::ffff:192.168.100.1"
  std::uint32_t source_qp = 0, destination_qp = 0;
  std::uint64_t sequence = 0;
  std::uint32_t opcode = 0;  // ibv_wr_opcode
  std::uint64_t payload_bytes = 0;
  std::uint32_t status = 0;     // ibv_wc_status; kStatusUnknown
  std::uint32_t immediate = 0;  // 0 where the opcode has none
};

/// An unsignalled send without a later signalled one: real hardware reports no completion for it.
inline constexpr std::uint32_t kStatusUnknown = 0xffffffffU;

/// Columns are found by their names. Throws std::runtime_error with file, line and cause.
std::vector<TracedMessage> read_trace_file(const std::string& path);

/// A line of numbers and names at its commas, as messages.csv and slots.csv have them: nothing is quoted.
std::vector<std::string_view> split_line(std::string_view line);

/// "RDMA_WRITE_WITH_IMM", "SEND", ...; "opcode 77" for an unknown one.
std::string opcode_name(std::uint32_t opcode);

}  // namespace meshbed::testbed
