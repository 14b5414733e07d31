#pragma once
// Names of a scenario for megakernels: the kinds of slots of a queue, by weights, and the ends of a ring.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plugin/base/prng.h"

namespace meshbed::testbed {

enum class RingMix : std::uint8_t { kNop, kAdd, kPacked, kPrintf, kLoadMiss, kCompute, kYield, kRequeue, kFault };
/// "nop", "add", "packed", "printf", "load_miss", "compute", "yield", "requeue", "fault".
const std::vector<std::string>& ring_mix_names();

struct RingWeight {
  RingMix kind = RingMix::kAdd;
  int weight = 1;
};
/// "add:3", "add"; nothing where there is no such kind or the weight is not 1 to 1,000,000.
std::optional<RingWeight> ring_weight_of(const std::string& text);

/// One of the kinds, each by its weight; an ADD where there are none. Texts must be such that ring_weight_of() reads.
RingMix draw_mix(Prng& prng, const std::vector<std::string>& mix);
/// An index, each by its weight; `otherwise` where there are none, or none above 0.
std::uint32_t draw_weighted(Prng& prng, const std::vector<int>& weights, std::uint32_t otherwise);

/// Of ring::Cause, as [expect] writes them.
std::vector<std::string> ring_cause_names();

/// The programs that are known by name.
const std::vector<std::string>& ring_program_names();
/// The program is a file: its name ends in .toml or .jsonl.
bool is_slot_graph_file(const std::string& program);

}  // namespace meshbed::testbed
