#include "plugin/coll/plan/slots.h"

#include <algorithm>
#include <cstddef>

#include "plugin/base/check.h"

namespace meshbed::coll {
namespace {

using ring::MeshSlot;
using ring::Word;
namespace arg = ring::mesh_arg;

constexpr std::uint64_t kStagingAlignment = 64;  // whole cache lines, and every element's alignment

Area area_at(const Area& area, std::uint64_t bytes) { return {area.space, area.offset_bytes + bytes}; }

bool adds_up(const RecvStep& step) {
  return step.arrival == Arrival::kReduceToOutput || step.arrival == Arrival::kReduceInSlot;
}

}  // namespace

/// A step's slices, one by one, as both ends of its connection derive them.
template <typename StepKind>
class SlotBuilder::Slices {
 public:
  using StepOf = StepKind (*)(const Plan&, std::uint64_t);
  Slices(const Plan& plan, std::uint64_t steps, std::uint64_t slice_count, StepOf step_of)
      : plan_(plan), steps_(steps), slice_count_(slice_count), step_of_(step_of) {
    find();
  }
  bool over() const { return index_ == steps_; }
  const StepKind& now() const { return slice_; }
  void next() {
    skipped_ += slice_.count;
    find();
  }

 private:
  void find() {
    for (; index_ < steps_; ++index_, skipped_ = 0) {
      slice_ = step_of_(plan_, index_);
      if (skipped_ == slice_.count) continue;  // an empty chunk has no slice
      move(slice_, skipped_);
      slice_.count = std::min(slice_.count - skipped_, slice_count_);
      return;
    }
  }
  static void move(SendStep& step, std::uint64_t elements) { step.offset += elements; }
  static void move(RecvStep& step, std::uint64_t elements) {
    step.output_offset += elements;
    step.input_offset += elements;
  }

  const Plan& plan_;
  std::uint64_t steps_, slice_count_;
  StepOf step_of_;
  std::uint64_t index_ = 0, skipped_ = 0;
  StepKind slice_{};
};

Word SlotBuilder::word_of(std::uint64_t value) {
  too_large_ = too_large_ || value > 0xffff'ffffU;
  return static_cast<Word>(value);
}

Word SlotBuilder::spaces_of(Form form, Space first, Space second, Space third) const {
  return static_cast<Word>(form) | static_cast<Word>(first) << 8U | static_cast<Word>(second) << 16U |
         static_cast<Word>(third) << 24U;
}

Word SlotBuilder::add(MeshSlot slot, Word after, Word also_after) {
  const Word id = word_of(program_.slots.size());
  slot.args[arg::kId] = id;
  slot.args[arg::kAfter] = after;
  slot.args[arg::kAlsoAfter] = also_after;
  program_.slots.push_back(slot);
  return id;
}

Word SlotBuilder::send_connection(int peer, int channel) {
  auto& sends = program_.sends;
  const auto found = std::find_if(sends.begin(), sends.end(),
                                  [&](const auto& one) { return one.peer == peer && one.channel == channel; });
  if (found != sends.end()) return static_cast<Word>(found - sends.begin());
  sends.push_back({.peer = peer, .channel = channel});
  last_put_.push_back(ring::kNoId);
  return static_cast<Word>(sends.size() - 1);
}

Word SlotBuilder::receive_connection(int peer, int channel) {
  auto& receives = program_.receives;
  const auto found = std::find_if(receives.begin(), receives.end(),
                                  [&](const auto& one) { return one.peer == peer && one.channel == channel; });
  if (found != receives.end()) return static_cast<Word>(found - receives.begin());
  receives.push_back({.peer = peer, .channel = channel, .landings = {}});
  return static_cast<Word>(receives.size() - 1);
}

Area SlotBuilder::staged(std::uint64_t size_bytes) {
  const Area area{Space::kStaging, program_.staging_bytes};
  program_.staging_bytes += (size_bytes + kStagingAlignment - 1) / kStagingAlignment * kStagingAlignment;
  return area;
}

Word SlotBuilder::add_put(int peer, int channel, Area from, std::uint64_t size_bytes, Word after) {
  const Word connection = send_connection(peer, channel);
  const Word message = word_of(program_.sends[connection].messages++);
  MeshSlot put{.opcode = ring::opcode::kPut};
  put.args[arg::kSpaces] = spaces_of(Form::kFirst, from.space, Space::kInput, Space::kInput);
  put.args[arg::kFirst] = word_of(from.offset_bytes);
  put.args[arg::kConnection] = connection;
  put.args[arg::kCount] = word_of(size_bytes);
  put.args[arg::kMessage] = message;
  // The other side has its landings in the order of the messages.
  last_put_[connection] = add(put, after, last_put_[connection]);
  MeshSlot signal{.opcode = ring::opcode::kSignal};
  signal.args[arg::kConnection] = connection;
  signal.args[arg::kCount] = message + 1;
  signal.args[arg::kMessage] = message;
  return add(signal, last_put_[connection], ring::kNoId);
}

Word SlotBuilder::add_wait(int peer, int channel, Landing landing) {
  auto& landings = program_.receives[receive_connection(peer, channel)].landings;
  const std::size_t message = landings.size();
  expect_messages(peer, channel, {landing});
  return add_wait_for(peer, channel, message, ring::kNoId, ring::kNoId);
}

void SlotBuilder::expect_messages(int peer, int channel, const std::vector<Landing>& landings) {
  auto& all = program_.receives[receive_connection(peer, channel)].landings;
  for (const Landing& landing : landings) {
    too_large_ = too_large_ || landing.area.offset_bytes + landing.size_bytes > 0xffff'ffffU;
    all.push_back(landing);
  }
}

Word SlotBuilder::add_wait_for(int peer, int channel, std::size_t message, Word after, Word also_after) {
  MeshSlot wait{.opcode = ring::opcode::kWait};
  wait.args[arg::kConnection] = receive_connection(peer, channel);
  wait.args[arg::kCount] = word_of(message + 1);
  wait.args[arg::kMessage] = word_of(message);
  return add(wait, after, also_after);
}

Word SlotBuilder::add_sum(Area arrived, Area own, Area result, std::uint64_t count, Word after) {
  return add_reduce(Form::kOnly, arrived, own, result, count, after, ring::kNoId);
}

Word SlotBuilder::add_reduce(Form form, Area arrived, Area own, Area result, std::uint64_t count, Word after,
                             Word also_after) {
  MeshSlot sum{.opcode = ring::opcode::kReduce};
  sum.args[arg::kSpaces] = spaces_of(form, arrived.space, own.space, result.space);
  sum.args[arg::kFirst] = word_of(arrived.offset_bytes);
  sum.args[arg::kSecond] = word_of(own.offset_bytes);
  sum.args[arg::kThird] = word_of(result.offset_bytes);
  sum.args[arg::kCount] = word_of(count);
  return add(sum, after, also_after);
}

void SlotBuilder::keep_partial_on_chip() { program_.slots.back().args[arg::kSpaces] |= arg::kOnChip; }

Word SlotBuilder::add_join(Word after, Word also_after) {
  return add({.opcode = ring::opcode::kCompute}, after, also_after);
}

Word SlotBuilder::add_copy(Area from, Area to, std::uint64_t size_bytes, Word after, Word also_after) {
  MeshSlot copy{.opcode = ring::opcode::kCopy};
  copy.args[arg::kSpaces] = spaces_of(Form::kFirst, from.space, Space::kInput, to.space);
  copy.args[arg::kFirst] = word_of(from.offset_bytes);
  copy.args[arg::kThird] = word_of(to.offset_bytes);
  copy.args[arg::kCount] = word_of(size_bytes);
  return add(copy, after, also_after);
}

Word SlotBuilder::add_compute(std::uint64_t duration_ns, Word after, Word also_after) {
  MeshSlot compute{.opcode = ring::opcode::kCompute};
  compute.args[arg::kCount] = word_of(duration_ns);
  return add(compute, after, also_after);
}

void SlotBuilder::send_slice(const Plan& plan, const PlanPlace& place, const SendStep& slice,
                             const Received* forwarded) {
  const std::uint64_t offset_bytes = slice.offset * plan.request.element_bytes;
  const Area from = slice.source == Source::kPartial ? forwarded->area
                    : slice.source == Source::kInput ? area_at(place.input, offset_bytes)
                                                     : area_at(place.output, offset_bytes);
  const Word after = forwarded != nullptr ? forwarded->id : place.input_after;
  add_put(plan.send_peer, place.channel, from, slice.count * wire_bytes_of(plan.request, slice), after);
}

SlotBuilder::Received SlotBuilder::receive_slice(const Plan& plan, const PlanPlace& place, const RecvStep& slice) {
  const PlanRequest& request = plan.request;
  const std::uint64_t size_bytes = slice.count * wire_bytes_of(request, slice);
  const Area output = area_at(place.output, slice.output_offset * request.element_bytes);
  if (!adds_up(slice)) return {add_wait(plan.recv_peer, place.channel, {output, size_bytes}), output};
  const Area landing = staged(size_bytes);
  const Word arrived = add_wait(plan.recv_peer, place.channel, {landing, size_bytes});
  const bool keeps = slice.arrival == Arrival::kReduceInSlot;
  // A kernel that widens cannot write over what it still has to read.
  const bool widens = keeps && request.partial_bytes != request.element_bytes;
  const Area result = !keeps ? output : widens ? staged(slice.count * request.partial_bytes) : landing;
  const Area own = area_at(place.input, slice.input_offset * request.element_bytes);
  MeshSlot reduce{.opcode = ring::opcode::kReduce};
  reduce.args[arg::kSpaces] = spaces_of(slice.form, landing.space, own.space, result.space);
  reduce.args[arg::kFirst] = word_of(landing.offset_bytes);
  reduce.args[arg::kSecond] = word_of(own.offset_bytes);
  reduce.args[arg::kThird] = word_of(result.offset_bytes);
  reduce.args[arg::kCount] = word_of(slice.count);
  reduce.args[arg::kMessage] = program_.slots[arrived].args[arg::kMessage];
  return {add(reduce, arrived, place.input_after), result};
}

/// A plan on its way into slots.
struct SlotBuilder::Weave {
  Weave(const PlannedSlots& planned)
      : plan(planned.plan),
        place(planned.place),
        sends(plan, plan.send_steps, plan.slice_count, &send_step),
        receives(plan, plan.recv_steps, plan.recv_slice_count, &recv_step) {}
  const Plan& plan;
  const PlanPlace& place;
  Slices<SendStep> sends;
  Slices<RecvStep> receives;
  std::vector<Received> to_forward;
  std::size_t forwarded = 0;
};

void SlotBuilder::begin(Weave& weave, std::vector<Word>& made) {
  const Plan& plan = weave.plan;
  if (plan.copy.count > 0) {
    const std::uint64_t element_bytes = plan.request.element_bytes;
    made.push_back(add_copy(area_at(weave.place.input, plan.copy.input_offset * element_bytes),
                            area_at(weave.place.output, plan.copy.output_offset * element_bytes),
                            plan.copy.count * element_bytes, weave.place.input_after));
  }
  for (; !weave.sends.over() && !weave.sends.now().forwarded; weave.sends.next()) {
    send_slice(plan, weave.place, weave.sends.now(), nullptr);
  }
}

Result<void> SlotBuilder::finish(Weave& weave, std::vector<Word>& made) {
  auto& [plan, place, sends, receives, to_forward, forwarded] = weave;
  while (!sends.over() || !receives.over()) {
    if (!sends.over() && (!sends.now().forwarded || forwarded < to_forward.size())) {
      const Received* const brought = sends.now().forwarded ? &to_forward[forwarded++] : nullptr;
      send_slice(plan, place, sends.now(), brought);
      sends.next();
      continue;
    }
    MESHBED_CHECK_MSG(!receives.over(), "a plan forwards what nothing brings");
    const RecvStep& slice = receives.now();
    if (slice.arrival == Arrival::kStoreBehindSend) {
      return Error{.code = ErrorCode::kUnsupported,
                   .scope = Scope::kRequest,
                   .text = "slots: send_recv in place has no slots; give it an output of its own"};
    }
    const Received received = receive_slice(plan, place, slice);
    if (slice.arrival != Arrival::kReduceInSlot) made.push_back(received.id);
    if (slice.forward) to_forward.push_back(received);
    receives.next();
  }
  return ok();
}

Result<void> SlotBuilder::add_plans(std::vector<PlannedSlots>& plans) {
  std::vector<Weave> weaves(plans.begin(), plans.end());
  for (std::size_t index = 0; index < plans.size(); ++index) begin(weaves[index], plans[index].made);
  for (std::size_t index = 0; index < plans.size(); ++index) {
    if (const auto done = finish(weaves[index], plans[index].made); !done) return done;
  }
  return ok();
}

Result<void> SlotBuilder::add_plan(const Plan& plan, const PlanPlace& place) {
  std::vector<PlannedSlots> one{{.plan = plan, .place = place}};
  return add_plans(one);
}

Result<SlotProgram> SlotBuilder::take() {
  too_large_ = too_large_ || program_.staging_bytes > 0xffff'ffffU || program_.slots.size() > ring::kSlotsMost;
  if (too_large_) {
    return Error{.code = ErrorCode::kInvalidArgument,
                 .scope = Scope::kRequest,
                 .text = "slots: arguments are words: buffers must end below 4 GiB; lower bytes"};
  }
  return std::move(program_);
}

Result<SlotProgram> slots_of(const PlanRequest& request) {
  SlotBuilder builder;
  std::vector<PlannedSlots> plans;
  for (const SubPlan& part : sub_plans_of(request)) {
    plans.push_back({.plan = make_plan(part.request),
                     .place = {.input = {Space::kInput, part.input_offset * request.element_bytes},
                               .output = {Space::kOutput, part.output_offset * request.element_bytes}}});
  }
  if (const auto added = builder.add_plans(plans); !added) return added.error();
  return builder.take();
}

}  // namespace meshbed::coll
