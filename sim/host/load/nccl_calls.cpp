#include "sim/host/load/nccl_calls.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <type_traits>

#include "sim/host/host_state.h"

namespace meshbed::sim {
namespace {

/// ncclUniqueId, which is passed by value (NCCL v2.30.7-1, src/nccl.h.in).
struct UniqueId {
  char internal[128];
};

/// Where a call has what, counted from 0 (NCCL v2.30.7-1, src/nccl.h.in); -1: nowhere.
struct Shape {
  const char* name;
  int count = -1, datatype = -1, peer = -1;
};
constexpr Shape kShapes[] = {
    {"ncclAllReduce", 2, 3},
    {"ncclReduceScatter", 2, 3},
    {"ncclReduce", 2, 3, 5},
    {"ncclBroadcast", 2, 3, 4},
    {"ncclGather", 2, 3, 4},
    {"ncclScatter", 2, 3, 4},
    {"ncclBcast", 1, 2, 3},
    {"ncclAllGather", 2, 3},
    {"ncclAlltoAll", 2, 3},
    {"ncclSend", 1, 2, 3},
    {"ncclRecv", 1, 2, 3},
    {"ncclGroupStart"},
    {"ncclGroupEnd"},
    {"ncclGetUniqueId"},
    {"ncclCommInitRank"},
    {"ncclCommInitRankConfig"},
    {"ncclCommInitRankScalable"},
    {"ncclCommInitAll"},
    {"ncclCommSplit"},
    {"ncclCommFinalize"},
    {"ncclCommDestroy"},
    {"ncclCommAbort"},
    {"ncclCommRegister"},
    {"ncclCommDeregister"},
    {"ncclMemAlloc"},
    {"ncclMemFree"},
};
constexpr std::size_t kShapesCount = std::size(kShapes);

constexpr std::size_t index_of(std::string_view name) {
  std::size_t index = 0;
  while (index < kShapesCount && name != kShapes[index].name) ++index;
  return index;
}

template <typename Argument>
std::uint64_t number_of(const Argument& argument) {
  if constexpr (std::is_integral_v<Argument>) {
    return static_cast<std::uint64_t>(argument);
  } else {
    return 0;
  }
}

/// A call from its start to end(), which is not reached where the thread is stopped within.
class KeptCall {
 public:
  KeptCall(std::size_t shape, const std::uint64_t* numbers) : calls_(*host().options.nccl_calls) {
    if (calls_.calls.size() >= NcclCalls::kMost) {
      ++calls_.lost;
      return;
    }
    at_ = calls_.calls.size();
    const Shape& of = kShapes[shape];
    calls_.calls.push_back({.rank = World::current_process()->rank,
                            .name = of.name,
                            .thread = current_record().id,
                            .start_ps = World::get().now(),
                            .count = of.count >= 0 ? numbers[of.count] : 0,
                            .datatype = of.datatype >= 0 ? static_cast<int>(numbers[of.datatype]) : -1,
                            .peer = of.peer >= 0 ? static_cast<int>(numbers[of.peer]) : -1});
  }
  void end() {
    if (at_ < calls_.calls.size()) calls_.calls[at_].end_ps = World::get().now();
  }

 private:
  NcclCalls& calls_;
  std::size_t at_ = NcclCalls::kMost;
};

template <std::size_t Index, typename... Arguments>
int keep_and_call(Arguments... arguments) {
  constexpr int kInvalidUsage = 5;
  if (outside()) return kInvalidUsage;  // which process's library is meant is not known
  const auto function = reinterpret_cast<int (*)(Arguments...)>(current_state().nccl_functions[Index]);
  const std::uint64_t numbers[sizeof...(Arguments) + 1] = {number_of(arguments)..., 0};
  KeptCall kept(Index, numbers);
  const int result = function(arguments...);
  kept.end();
  return result;
}

using Pointer = void*;

/// The function that keeps calls of kShapes[Index], by the types of its arguments.
template <std::size_t Index, typename... Arguments>
void add(std::array<void*, kShapesCount>& all) {
  static_assert(Index < kShapesCount, "a name that kShapes has not");
  all[Index] = reinterpret_cast<void*>(&keep_and_call<Index, Arguments...>);
}

std::array<void*, kShapesCount> make_keepers() {
  std::array<void*, kShapesCount> all{};
  using Size = std::size_t;
  add<index_of("ncclAllReduce"), Pointer, Pointer, Size, int, int, Pointer, Pointer>(all);
  add<index_of("ncclReduceScatter"), Pointer, Pointer, Size, int, int, Pointer, Pointer>(all);
  add<index_of("ncclReduce"), Pointer, Pointer, Size, int, int, int, Pointer, Pointer>(all);
  add<index_of("ncclBroadcast"), Pointer, Pointer, Size, int, int, Pointer, Pointer>(all);
  add<index_of("ncclGather"), Pointer, Pointer, Size, int, int, Pointer, Pointer>(all);
  add<index_of("ncclScatter"), Pointer, Pointer, Size, int, int, Pointer, Pointer>(all);
  add<index_of("ncclBcast"), Pointer, Size, int, int, Pointer, Pointer>(all);
  add<index_of("ncclAllGather"), Pointer, Pointer, Size, int, Pointer, Pointer>(all);
  add<index_of("ncclAlltoAll"), Pointer, Pointer, Size, int, Pointer, Pointer>(all);
  add<index_of("ncclSend"), Pointer, Size, int, int, Pointer, Pointer>(all);
  add<index_of("ncclRecv"), Pointer, Size, int, int, Pointer, Pointer>(all);
  add<index_of("ncclGroupStart")>(all);
  add<index_of("ncclGroupEnd")>(all);
  add<index_of("ncclGetUniqueId"), Pointer>(all);
  add<index_of("ncclCommInitRank"), Pointer, int, UniqueId, int>(all);
  add<index_of("ncclCommInitRankConfig"), Pointer, int, UniqueId, int, Pointer>(all);
  add<index_of("ncclCommInitRankScalable"), Pointer, int, int, int, Pointer, Pointer>(all);
  add<index_of("ncclCommInitAll"), Pointer, int, Pointer>(all);
  add<index_of("ncclCommSplit"), Pointer, int, int, Pointer, Pointer>(all);
  add<index_of("ncclCommFinalize"), Pointer>(all);
  add<index_of("ncclCommDestroy"), Pointer>(all);
  add<index_of("ncclCommAbort"), Pointer>(all);
  add<index_of("ncclCommRegister"), Pointer, Pointer, Size, Pointer>(all);
  add<index_of("ncclCommDeregister"), Pointer, Pointer>(all);
  add<index_of("ncclMemAlloc"), Pointer, Size>(all);
  add<index_of("ncclMemFree"), Pointer>(all);
  return all;
}

}  // namespace

void* kept_nccl_call(ProcessState& state, std::string_view name, void* function) {
  if (host().options.nccl_calls == nullptr || function == nullptr || !name.starts_with("nccl")) return nullptr;
  const std::size_t index = index_of(name);
  if (index == kShapesCount) return nullptr;
  static const std::array<void*, kShapesCount> keepers = make_keepers();
  state.nccl_functions.resize(kShapesCount);
  state.nccl_functions[index] = function;
  return keepers[index];
}

}  // namespace meshbed::sim
