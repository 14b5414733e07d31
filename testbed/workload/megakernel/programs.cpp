#include "testbed/workload/megakernel/programs.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "testbed/base/memory.h"
#include "testbed/base/units.h"
#include "testbed/scenario/megakernel/exchange.h"
#include "testbed/scenario/megakernel/slot_graph.h"
#include "testbed/workload/collective.h"

namespace meshbed::testbed {
namespace {

using coll::Space;

coll::DataType ring_type_of(const Workload& workload) { return parse_data_type("dtype", workload.dtype); }
coll::ReduceOp ring_op_of(const Workload& workload) { return parse_reduction("op", workload.op); }

std::size_t index_of_space(Space space) { return static_cast<std::size_t>(space); }

coll::ReduceOp contributes_as(const Workload& workload) {
  const std::string& program = workload.megakernel.program;
  const bool all_reduces = program == "all_reduce" || program == "fused_all_reduce" || program == "decode";
  return all_reduces ? ring_op_of(workload) : coll::ReduceOp::kSum;
}

}  // namespace

void refuse_graph_too_large(const Workload& workload) {
  if (workload.megakernel.graph == nullptr) return;
  const std::uint64_t bytes = memory_of(*workload.megakernel.graph, coll::size_of(ring_type_of(workload))).all_bytes;
  const std::uint64_t left = available_memory_bytes();
  if (bytes <= left) return;
  throw std::runtime_error(
      fmt::format("workload.megakernel: the messages of all ranks need {} of memory, and this machine has {} left; "
                  "take fewer ranks, "
                  "or fewer or smaller messages",
                  size_text(bytes), size_text(left)));
}

void fill_source(const RingProgram& program, const Workload& workload, int rank, int ranks, std::uint32_t salt,
                 bool rough, RingSpaces& spaces) {
  void* const source = spaces[index_of_space(program.source)].data();
  const coll::DataType type = ring_type_of(workload);
  if (workload.megakernel.graph != nullptr) {
    for (std::size_t space = 0; space < spaces.size(); ++space) {
      fill_rough(rank, salt + static_cast<std::uint32_t>(space), type, spaces[space].data(),
                 spaces[space].size() / coll::size_of(type));
    }
    return;
  }
  if (workload.megakernel.program == "moe") {
    std::vector<std::byte>& own = spaces[index_of_space(Space::kMade)];
    fill_rough(rank + ranks, salt, type, own.data(), own.size() / coll::size_of(type));
  }
  if (rough) return fill_rough(rank, salt, type, source, program.source_count);
  fill(rank_pattern(rank, 0, salt, contributes_as(workload), ranks), type, source, program.source_count);
}

bool adds_in_rank_order(const Workload& workload) {
  return workload.megakernel.one_shot && workload.megakernel.program != "all_gather";
}

std::vector<std::byte> rank_order_result(const RingProgram& program, const Workload& workload, int ranks,
                                         std::uint32_t salt) {
  const coll::DataType type = ring_type_of(workload);
  std::vector<std::vector<std::byte>> inputs(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<std::byte>& input = inputs[static_cast<std::size_t>(rank)];
    input.resize(program.source_count * coll::size_of(type));
    fill_rough(rank, salt, type, input.data(), program.source_count);
  }
  return sum_in_rank_order(inputs, type, ring_op_of(workload));
}

RingCheck check_pattern(const RingProgram& program, const Workload& workload, int rank, int ranks, std::uint32_t salt,
                        const RingSpaces& spaces) {
  RingCheck result;
  const coll::DataType type = ring_type_of(workload);
  const std::byte* const output = spaces[index_of_space(Space::kOutput)].data();
  const auto compare = [&](const Pattern& pattern, std::uint64_t begin, std::uint64_t count) {
    const std::byte* const values = output + begin * coll::size_of(type);
    result.checked += count;
    const std::uint64_t wrong = count_wrong(pattern, type, values, count);
    if (wrong == 0) return;
    if (result.wrong == 0) {
      const std::size_t at = first_wrong(pattern, type, values, count);
      result.first_wrong =
          fmt::format("rank {}, element {}: {}", rank, begin + at, say_wrong(pattern, type, values, at));
    }
    result.wrong += wrong;
  };
  const std::string& kind = workload.megakernel.program;
  if (kind == "moe" || program.result_count == 0) return result;
  if (kind != "all_gather") {
    compare(reduced_pattern(ranks, 0, salt, contributes_as(workload)), 0, program.result_count);
    return result;
  }
  for (int source = 0; source < ranks; ++source) {
    compare(rank_pattern(source, 0, salt, coll::ReduceOp::kSum, ranks),
            static_cast<std::uint64_t>(source) * program.count, program.count);
  }
  return result;
}

Result<std::vector<std::byte>> engine_result(Engine& engine, const RingProgram& program, const Workload& workload,
                                             int ranks, RingSpaces& spaces) {
  const EngineCalls& calls = engine.calls();
  const coll::DataType data_type = ring_type_of(workload);
  const auto type = static_cast<meshcoll_dtype>(data_type);
  const auto op = static_cast<meshcoll_op>(ring_op_of(workload));
  std::byte* const source = spaces[index_of_space(program.source)].data();
  const std::string& kind = workload.megakernel.program;
  const std::uint64_t largest = std::max(program.result_count, program.source_count);
  std::vector<std::byte> result(largest * coll::size_of(data_type));
  const auto outcome = [&]() -> Result<void> {
    if (kind == "all_gather") {
      return engine.outcome(calls.all_gather(engine.comm(), source, result.data(), program.count, type));
    }
    if (kind == "pipeline") {
      return engine.outcome(
          calls.reduce(engine.comm(), source, result.data(), program.count, type, MESHCOLL_SUM, ranks - 1));
    }
    if (kind == "fused_all_reduce" || kind == "decode") {
      // A call for each tile or layer: the begin of its chunks determines the order of additions.
      const auto parts =
          static_cast<std::uint64_t>(kind == "decode" ? workload.megakernel.layers : workload.megakernel.parts);
      for (std::uint64_t part = 0; part < parts; ++part) {
        const auto [begin, count] = coll::part_of(program.count, parts, part);
        const std::uint64_t at = begin * coll::size_of(data_type);
        const auto done =
            engine.outcome(calls.all_reduce(engine.comm(), source + at, result.data() + at, count, type, op));
        if (!done) return done;
      }
      return ok();
    }
    if (kind != "moe") {
      return engine.outcome(calls.all_reduce(engine.comm(), source, result.data(), program.count, type, op));
    }
    std::vector<std::byte> there(result.size()), made(result.size());
    const auto out = engine.outcome(calls.all_to_all(engine.comm(), source, there.data(), program.count, type));
    if (!out) return out;
    coll::reduce_kernels(data_type, ring_op_of(workload))
        .only(made.data(), there.data(), spaces[index_of_space(Space::kMade)].data(), program.result_count,
              static_cast<std::uint32_t>(ranks));
    return engine.outcome(calls.all_to_all(engine.comm(), made.data(), result.data(), program.count, type));
  }();
  if (!outcome) return outcome.error();
  result.resize(program.result_count * coll::size_of(data_type));
  return result;
}

}  // namespace meshbed::testbed
