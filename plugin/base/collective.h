#pragma once
// Collective: the operations of the engine, of scenarios and of the models, from one list (collectives.def). A new one
// is a line there; what its data, steps and bounds are stands where each is computed.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace meshbed {

/// The numbers are those of meshcoll_call, which ranks also send to each other.
enum class Collective : std::uint8_t {
#define MESHBED_COLLECTIVE(constant, number, c_constant, name, call, nccl_name, tuner_name, reduces, root) \
  constant = (number),
#include "plugin/base/collectives.def"
#undef MESHBED_COLLECTIVE
};

struct CollectiveInfo {
  Collective collective;
  const char* name;             // of scenarios and of nccl-tests: "alltoall"
  const char* call;             // of the engine's function, in its errors: "all_to_all"
  const char* nccl_name;        // v2.30.7-1, src/misc/utils.cc, ncclFuncToString; of programs' calls in reports
  std::string_view tuner_name;  // in tables of NCCL's example tuner; empty: they have no such row
  bool reduces;                 // its calls have a reduction
  bool has_root;
};

/// In the order in which they are listed to users.
inline constexpr std::array kCollectives{
#define MESHBED_COLLECTIVE(constant, number, c_constant, name, call, nccl_name, tuner_name, reduces, root) \
  CollectiveInfo{Collective::constant, name, call, nccl_name, tuner_name, reduces, root},
#include "plugin/base/collectives.def"
#undef MESHBED_COLLECTIVE
};
/// Their numbers are 0 to this, less one.
inline constexpr int kCollectiveCount = static_cast<int>(kCollectives.size());

constexpr const CollectiveInfo& info_of(Collective collective) {
  for (const CollectiveInfo& each : kCollectives) {
    if (each.collective == collective) return each;
  }
  return kCollectives.front();  // not reached: every number has a line
}
constexpr const char* name_of(Collective collective) { return info_of(collective).name; }
constexpr const char* call_name_of(Collective collective) { return info_of(collective).call; }
constexpr const char* nccl_name_of(Collective collective) { return info_of(collective).nccl_name; }
constexpr bool reduces(Collective collective) { return info_of(collective).reduces; }
constexpr bool has_root(Collective collective) { return info_of(collective).has_root; }

}  // namespace meshbed
