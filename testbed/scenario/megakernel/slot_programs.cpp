#include "testbed/scenario/megakernel/slot_programs.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "plugin/ring/abi/control.h"
#include "testbed/scenario/collective_shape.h"
#include "testbed/scenario/megakernel/exchange.h"
#include "testbed/scenario/megakernel/slot_graph.h"

namespace meshbed::testbed {
namespace {

using coll::Area;
using coll::PlanRequest;
using coll::SlotBuilder;
using coll::Space;
using ring::Word;

constexpr std::uint64_t kEngineSliceBytes = 1 << 20;  // the engine's own

std::size_t space_index(Space space) { return static_cast<std::size_t>(space); }

std::uint64_t compute_ns_of(const Megakernel& settings, int rank) {
  const double ns = static_cast<double>(settings.compute_ps / kPicosecondsPerNanosecond);
  return static_cast<std::uint64_t>(ns / speed_of(settings, rank) + 0.5);
}

struct ProgramMaker {
  const Workload& workload;
  int rank, ranks;
  coll::DataType type = parse_data_type("dtype", workload.dtype);
  std::uint64_t element_bytes = coll::size_of(type);
  std::uint64_t elements = workload.bytes / element_bytes;
  std::uint64_t compute_ns = compute_ns_of(workload.megakernel, rank);
  RingProgram made{};
  SlotBuilder builder{};
  std::vector<std::size_t> begun{};

  PlanRequest request(coll::Collective collective, std::uint64_t count) const {
    return {.collective = collective,
            .rank = rank,
            .ranks = ranks,
            .count = count,
            .element_bytes = element_bytes,
            .partial_bytes = coll::size_of(coll::accumulator_of(type)),
            .slice_bytes_max = workload.slice_bytes > 0 ? workload.slice_bytes : kEngineSliceBytes};
  }
  void need(Space space, std::uint64_t count) { made.space_bytes[space_index(space)] = count * element_bytes; }

  ExchangeShape exchange_of(std::uint64_t count) const {
    return {
        .rank = rank, .ranks = ranks, .count = count, .type = type, .forwards = workload.megakernel.forward == "ranks"};
  }

  /// The slot that is next begins an operation.
  void begin_operation() { begun.push_back(builder.size()); }

  Result<void> all_reduce() {
    begin_operation();
    made.count = made.source_count = made.result_count = elements;
    need(Space::kInput, elements);
    need(Space::kOutput, elements);
    if (workload.megakernel.one_shot) {
      add_one_shot(builder, exchange_of(elements), {Space::kInput, 0}, {Space::kOutput, 0}, ring::kNoId);
      return ok();
    }
    return builder.add_plan(make_plan(request(coll::Collective::kAllReduce, elements)), {});
  }

  Result<void> all_gather() {
    begin_operation();
    made.count = made.source_count = elements / static_cast<std::uint64_t>(ranks);
    made.result_count = made.count * static_cast<std::uint64_t>(ranks);
    need(Space::kInput, made.count);
    need(Space::kOutput, made.result_count);
    if (workload.megakernel.one_shot) {
      add_one_shot_gather(builder, exchange_of(made.count), {Space::kInput, 0}, {Space::kOutput, 0});
      return ok();
    }
    return builder.add_plan(make_plan(request(coll::Collective::kAllGather, made.count)), {});
  }

  Result<void> fused_all_reduce() {
    made.count = made.source_count = made.result_count = elements;
    made.source = Space::kMade;
    for (const Space space : {Space::kInput, Space::kOutput, Space::kMade}) need(space, elements);
    const auto parts = static_cast<std::uint64_t>(workload.megakernel.parts);
    Word computed = ring::kNoId;
    for (std::uint64_t part = 0; part < parts; ++part) {
      const auto [begin, count] = coll::part_of(elements, parts, part);
      const std::uint64_t offset = begin * element_bytes;
      // One tile after the other, as the compute units allow it.
      computed = builder.add_compute(compute_ns, computed);
      const Word tile =
          builder.add_copy({Space::kMade, offset}, {Space::kInput, offset}, count * element_bytes, computed);
      const auto added = builder.add_plan(make_plan(request(coll::Collective::kAllReduce, count)),
                                          {.input = {Space::kInput, offset},
                                           .output = {Space::kOutput, offset},
                                           .input_after = tile,
                                           .channel = static_cast<int>(part)});
      if (!added) return added;
    }
    return ok();
  }

  /// A layer's compute, shared by slots that lanes may run at once.
  Word split_compute(Word after) {
    const auto splits = static_cast<std::uint64_t>(workload.megakernel.splits);
    std::vector<Word> ends;
    for (std::uint64_t split = 0; split < splits; ++split) {
      ends.push_back(builder.add_compute(coll::part_of(compute_ns, splits, split).count, after));
    }
    return joined(builder, ends);
  }

  Result<void> decode() {
    const auto layers = static_cast<std::uint64_t>(workload.megakernel.layers);
    made.count = made.source_count = made.result_count = elements * layers;
    need(Space::kInput, made.count);
    need(Space::kOutput, made.count);
    Word summed = ring::kNoId;
    for (std::uint64_t layer = 0; layer < layers; ++layer) {
      const std::uint64_t offset = layer * elements * element_bytes;
      const Area input{Space::kInput, offset}, output{Space::kOutput, offset};
      begin_operation();
      const Word computed = split_compute(summed);
      begin_operation();
      if (workload.megakernel.one_shot) {
        summed = add_one_shot(builder, exchange_of(elements), input, output, computed);
        continue;
      }
      std::vector<coll::PlannedSlots> planned{{.plan = make_plan(request(coll::Collective::kAllReduce, elements)),
                                               .place = {.input = input, .output = output, .input_after = computed}}};
      if (const auto added = builder.add_plans(planned); !added) return added;
      summed = joined(builder, planned.front().made);
    }
    return ok();
  }

  Result<void> pipeline() {
    made.count = made.source_count = elements;
    made.result_count = rank == ranks - 1 ? elements : 0;
    need(Space::kInput, elements);
    need(Space::kOutput, elements);
    const auto parts = static_cast<std::uint64_t>(workload.megakernel.parts);
    Word computed = ring::kNoId;
    for (std::uint64_t part = 0; part < parts; ++part) {
      const auto [begin, count] = coll::part_of(elements, parts, part);
      if (count == 0) continue;
      const std::uint64_t size_bytes = count * element_bytes;
      const Area own{Space::kInput, begin * element_bytes}, result{Space::kOutput, begin * element_bytes};
      Word ready = ring::kNoId;
      Area arrived;
      if (rank > 0) {
        arrived = builder.staged(size_bytes);
        ready = builder.add_wait(rank - 1, 0, {arrived, size_bytes});
      }
      // A stage works on one micro-batch at a time, and on none before it is there.
      computed = builder.add_compute(compute_ns, ready == ring::kNoId ? computed : ready);
      const Word stage = rank > 0 ? builder.add_sum(arrived, own, result, count, computed)
                                  : builder.add_copy(own, result, size_bytes, computed);
      if (rank + 1 < ranks) builder.add_put(rank + 1, 0, result, size_bytes, stage);
    }
    return ok();
  }

  Result<void> moe() {
    const auto world = static_cast<std::uint64_t>(ranks);
    made.count = elements / world;
    made.source_count = made.result_count = made.count * world;
    for (const Space space : {Space::kInput, Space::kOutput, Space::kWork, Space::kMade}) need(space, elements);
    const std::uint64_t block_bytes = made.count * element_bytes;
    const auto pairs = sub_plans_of(request(coll::Collective::kAllToAll, made.count));
    const Area experts = builder.staged(block_bytes * world);
    std::vector<Word> sums(world, ring::kNoId);
    const auto offset = [&](std::uint64_t elements_on) { return elements_on * element_bytes; };
    std::vector<coll::PlannedSlots> dispatch, combine;
    for (const coll::SubPlan& pair : pairs) {
      dispatch.push_back({.plan = make_plan(pair.request),
                          .place = {.input = {Space::kInput, offset(pair.input_offset)},
                                    .output = {Space::kWork, offset(pair.output_offset)}}});
    }
    if (const auto added = builder.add_plans(dispatch); !added) return added;
    for (const coll::PlannedSlots& pair : dispatch) {
      if (pair.plan.request.from < 0 || pair.made.empty()) continue;
      const auto block = static_cast<std::uint64_t>(pair.plan.request.from);
      const std::uint64_t begin = block * block_bytes;
      // The last slice of a block comes last.
      const Word computed = builder.add_compute(compute_ns, pair.made.back());
      sums[block] = builder.add_sum({Space::kWork, begin}, {Space::kMade, begin},
                                    {Space::kStaging, experts.offset_bytes + begin}, made.count, computed);
    }
    for (const coll::SubPlan& pair : pairs) {
      const int to = pair.request.to;
      combine.push_back({.plan = make_plan(pair.request),
                         .place = {.input = {Space::kStaging, experts.offset_bytes + offset(pair.input_offset)},
                                   .output = {Space::kOutput, offset(pair.output_offset)},
                                   .input_after = to < 0 ? ring::kNoId : sums[static_cast<std::size_t>(to)],
                                   .channel = 1}});
    }
    return builder.add_plans(combine);
  }

  Result<void> run() {
    const std::string& program = workload.megakernel.program;
    if (program == "all_reduce") return all_reduce();
    if (program == "all_gather") return all_gather();
    if (program == "fused_all_reduce") return fused_all_reduce();
    if (program == "pipeline") return pipeline();
    if (program == "decode") return decode();
    return moe();
  }
};

}  // namespace

Result<RingProgram> ring_program(const Workload& workload, int rank, int ranks) {
  if (const auto& graph = workload.megakernel.graph) {
    Result<GraphProgram> program = program_of(*graph, rank);
    if (!program) return program.error();
    RingProgram made{
        .slots = std::move(program->slots), .begins = std::move(program->begins), .marks = std::move(program->marks)};
    const coll::DataType type = parse_data_type("dtype", workload.dtype);
    made.space_bytes =
        space_bytes_of(made.slots, std::max(coll::size_of(type), coll::size_of(coll::accumulator_of(type))));
    return made;
  }
  ProgramMaker maker{.workload = workload, .rank = rank, .ranks = ranks};
  if (const auto made = maker.run(); !made) return made.error();
  Result<coll::SlotProgram> slots = maker.builder.take();
  if (!slots) return slots.error();
  maker.made.slots = std::move(*slots);
  maker.made.begins.resize(maker.made.slots.slots.size());
  for (const std::size_t slot : maker.begun) maker.made.begins[slot] = true;
  maker.made.space_bytes[space_index(Space::kStaging)] = maker.made.slots.staging_bytes;
  return std::move(maker.made);
}

double speed_of(const Megakernel& settings, int rank) {
  const auto index = static_cast<std::size_t>(rank);
  return index < settings.speed.size() ? settings.speed[index] : 1;
}

Workload workload_of_ring(const Workload& workload) {
  Workload result = workload;
  result.bytes /= static_cast<std::uint64_t>(workload.megakernel.rings);
  return result;
}

Word ring_slots_of(const Megakernel& settings, const RingProgram* program) {
  constexpr Word kQueueSlotsDefault = 64;
  if (settings.slots > 0) return static_cast<Word>(settings.slots);
  return program == nullptr ? kQueueSlotsDefault : ring_slots_whole(*program);
}

RingPlaces ring_places_of(const Megakernel& settings, const RingProgram& program) {
  RingPlaces places{.slots = ring_slots_of(settings, &program)};
  places.reuses = places.slots < ring_slots_whole(program);
  if (!settings.by_priority) return places;
  if (settings.slots > 0) {
    places.levels = ring::levels_of(places.slots);
    places.reuses = true;
    return places;
  }
  // As many as each level has; the fence is in the last one.
  std::array<Word, ring::kPriorityOffsets> levels{};
  for (const ring::MeshSlot& slot : program.slots.slots) {
    const Word id = slot.args[ring::mesh_arg::kId];
    ++levels[(id < program.marks.size() ? program.marks[id].level : ring::priority::kNormal) + 1];
  }
  ++levels[ring::priority::kLevels];
  for (std::size_t level = 1; level < levels.size(); ++level) levels[level] += levels[level - 1];
  places.levels = levels;
  return places;
}

ring::MeshSlot slot_of_epoch(const coll::SlotProgram& program, Word slot, Word epoch) {
  namespace arg = ring::mesh_arg;
  ring::MeshSlot one = program.slots[slot];
  one.args[arg::kEpoch] = epoch;
  const Word connection = one.args[arg::kConnection];
  if (one.opcode == ring::opcode::kSignal || one.opcode == ring::opcode::kFence) {
    one.args[arg::kCount] += (epoch - 1) * static_cast<Word>(program.sends[connection].messages);
  } else if (one.opcode == ring::opcode::kWait) {
    one.args[arg::kCount] += (epoch - 1) * static_cast<Word>(program.receives[connection].landings.size());
  }
  return one;
}

void put_waits_first(RingProgram& program) {
  std::vector<ring::MeshSlot>& slots = program.slots.slots;
  std::vector<std::size_t> order(slots.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_partition(order.begin(), order.end(),
                        [&](std::size_t slot) { return slots[slot].opcode == ring::opcode::kWait; });
  const std::vector<ring::MeshSlot> slots_before = slots;
  for (std::size_t slot = 0; slot < order.size(); ++slot) slots[slot] = slots_before[order[slot]];
}

std::optional<std::string> ring_slots_problem(const Workload& workload, int ranks) {
  const Megakernel& settings = workload.megakernel;
  if (settings.program == "queue" || settings.slots == 0) return std::nullopt;
  const Workload of_ring = workload_of_ring(workload);
  for (int rank = 0; rank < ranks; ++rank) {
    const Result<RingProgram> program = ring_program(of_ring, rank, ranks);
    if (!program) return std::nullopt;  // the run says why
    const auto too_few = [&](const std::string& what) {
      return fmt::format("{} are too few for {} of {} on rank {}", settings.slots, what, settings.program, rank);
    };
    const Word whole = ring_slots_whole(*program);
    if (workload.gpu_memory && static_cast<Word>(settings.slots) < whole) return too_few(fmt::format("the {}", whole));
    const RingPlaces places = ring_places_of(settings, *program);
    if (!places.levels) continue;
    for (const SlotMark& mark : program->marks) {
      if ((*places.levels)[mark.level + 1] > (*places.levels)[mark.level]) continue;
      return too_few(fmt::format("a place of priority {}", kGraphLevels[mark.level]));
    }
  }
  return std::nullopt;
}

}  // namespace meshbed::testbed
