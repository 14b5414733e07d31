#pragma once
// Collective: the operations of the engine, of scenarios and of the models, from one list (collectives.def). A new one
// is a line there; docs/architecture.md has the places that compute its data, steps and bounds.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace meshbed {

/// The numbers are those of meshcoll_call, which ranks also send to each other.
enum class Collective : std::uint8_t {
#define MESHBED_COLLECTIVE(constant, number, ...) constant = (number),
#include "plugin/base/collectives.def"
#undef MESHBED_COLLECTIVE
};

/// What lies in a rank's buffer.
enum class CollectiveData : std::uint8_t {
  kBuffer,        // the caller's count of elements
  kShares,        // as many for each rank
  kBufferOfRoot,  // kBuffer at the root; elsewhere nothing
  kSharesOfRoot,  // kShares at the root; elsewhere nothing
};

/// How it goes where no other algorithm is chosen.
enum class CollectivePattern : std::uint8_t {
  kRing,     // round the ring
  kChain,    // along it, from the root or to it
  kPairs,    // as many messages of two ranks
  kMessage,  // as one of them
};

struct CollectiveInfo {
  Collective collective;
  const char* name;             // of scenarios and of nccl-tests: "alltoall"
  const char* call;             // of the engine's function, in its errors: "all_to_all"
  const char* nccl_name;        // v2.30.7-1, src/misc/utils.cc, ncclFuncToString; of programs' calls in reports
  std::string_view tuner_name;  // in tables of NCCL's example tuner; empty: they have no such row
  bool reduces;                 // its calls have a reduction
  bool has_root;
  CollectiveData sends, receives;
  CollectivePattern pattern;
};

/// In the order in which they are listed to users.
inline constexpr std::array kCollectives{
#define MESHBED_COLLECTIVE(constant, number, c_constant, name, call, nccl_name, tuner_name, reduces, root, sends, \
                           receives, pattern)                                                                     \
  CollectiveInfo{Collective::constant,                                                                            \
                 name,                                                                                            \
                 #call,                                                                                           \
                 nccl_name,                                                                                       \
                 tuner_name,                                                                                      \
                 reduces,                                                                                         \
                 root,                                                                                            \
                 CollectiveData::sends,                                                                           \
                 CollectiveData::receives,                                                                        \
                 CollectivePattern::pattern},
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
constexpr CollectivePattern pattern_of(Collective collective) { return info_of(collective).pattern; }

constexpr bool is_of_root(CollectiveData data) {
  return data == CollectiveData::kBufferOfRoot || data == CollectiveData::kSharesOfRoot;
}
constexpr bool has_shares(CollectiveData data) {
  return data == CollectiveData::kShares || data == CollectiveData::kSharesOfRoot;
}
constexpr bool has_shares(Collective collective) {
  return has_shares(info_of(collective).sends) || has_shares(info_of(collective).receives);
}
/// In pairs of every two ranks, rather than of the root and each other one.
constexpr bool is_all_to_all(Collective collective) {
  return pattern_of(collective) == CollectivePattern::kPairs && !has_root(collective);
}

}  // namespace meshbed
