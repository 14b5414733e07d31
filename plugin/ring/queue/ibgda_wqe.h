#pragma once
// The 64 bytes by which a GPU passes one operation to the NIC itself: a work queue entry (WQE) of a ConnectX queue
// pair, as IBGDA kernels write it. Sources: DeepEP dd758ca, csrc/kernels/ibgda_device.cuh; NCCL 2.30.7,
// src/transport/net_ib/gdaki (DOCA GPUNetIO); rdma-core 44, providers/mlx5/wqe.h.
//
// Segments of 16 bytes, big endian: control (index and opcode, queue pair and number of segments, flags), remote
// address (address, key), of an atomic its operands, and data (size, key, address).

#include <array>
#include <cstddef>
#include <cstdint>

#include "plugin/base/result.h"

namespace meshbed::ring {

inline constexpr std::size_t kWqeWords = 8;
/// In this machine's byte order the same memory as the NIC's bytes.
using WqeWords = std::array<std::uint64_t, kWqeWords>;

/// A WQE has 16 bits of its index, so that a longer ring would give two places the same one.
inline constexpr std::uint32_t kWqeRingMost = 1U << 15U;
/// Of a queue pair, where nothing says otherwise: NCCL_GIN_GDAKI_QP_DEPTH; DeepEP has 1024.
inline constexpr std::uint32_t kWqeRingDefault = 128;
inline constexpr std::uint32_t kWqeNumberMost = (1U << 24U) - 1;  // of a queue pair

enum class WqeOpcode : std::uint8_t { kWrite = 0x08, kWriteImmediate = 0x09, kRead = 0x10, kFetchAdd = 0x12 };

struct IbgdaWqe {
  WqeOpcode opcode = WqeOpcode::kWrite;
  std::uint16_t index = 0;       // of its place, counted on from lap to lap
  std::uint32_t queue_pair = 0;  // 24 bits
  bool completion = true;        // a completion is wanted
  std::uint32_t immediate = 0;   // of a write with immediate data
  std::uint64_t remote_address = 0, local_address = 0;
  std::uint32_t remote_key = 0, local_key = 0;
  std::uint32_t size_bytes = 0;
  std::uint64_t add = 0;  // of a fetch-and-add

  bool operator==(const IbgdaWqe&) const = default;
};

/// Errors (kInvalidArgument): a queue pair of more than 24 bits; an immediate or an addend of an operation without one.
Result<WqeWords> encode_wqe(const IbgdaWqe& what);
/// Errors: an opcode, or a number of segments, that is not one of these.
Result<IbgdaWqe> decode_wqe(const WqeWords& words);

/// The first word of each WQE, by which a written place is recognised: its index, and that there is an opcode.
WqeWords with_index(WqeWords words, std::uint16_t index);
bool is_wqe_at(std::uint64_t first_word, std::uint16_t index);

/// The queue pair's doorbell record, in its bytes: all WQEs below `producer` may be read.
std::uint32_t doorbell_record(std::uint64_t producer);
/// The producer index that a record has: 16 bits of it.
std::uint16_t producer_of(std::uint32_t record);

}  // namespace meshbed::ring
