#include <algorithm>
#include <cstring>

#include "cli/workload/megakernel/rank.h"

namespace meshbed::cli {

using ring::Word;
namespace arg = ring::mesh_arg;

namespace {

RingEventKind event_kind_of(Word status_at_end) {
  switch (status_at_end) {
    case ring::status::kYield:
      return RingEventKind::kYield;
    case ring::status::kRequeue:
      return RingEventKind::kRequeue;
    case ring::status::kFault:
      return RingEventKind::kFault;
    default:
      return RingEventKind::kDone;
  }
}

coll::ReduceFunction reduce_function_of(const coll::ReduceKernels& kernels, Word form) {
  switch (static_cast<coll::Form>(form)) {
    case coll::Form::kFirst:
      return kernels.first;
    case coll::Form::kBetween:
      return kernels.between;
    case coll::Form::kLast:
      return kernels.last;
    case coll::Form::kOnly:
      break;
  }
  return kernels.only;
}

}  // namespace

RingBuffers::RingBuffers(const Megakernel& settings, Word slot_count, Word lanes, const ring::MeshBoard& board)
    : control(std::max<std::size_t>(kRingLayout.control_min_words, kRingLayout.observables + board.observables())),
      slots(std::size_t{slot_count} * ring::kSlotWords),
      debug(ring::kDebugRecordsWord + ring::kDebugRecords * ring::kDebugRecordWords),
      io(std::size_t{ring::kIoEntries} * ring::kIoEntryWords) {
  control[ring::control_word::kTenantBase] = ring::control_word::kTenantMasks;
  for (Word tenant = 0; tenant < static_cast<Word>(settings.tenants); ++tenant) {
    if (tenant < ring::kTenantMasksMost) control[ring::control_word::kTenantMasks + tenant] = ring::kTenantMaskAll;
    if (tenant < ring::kTenantQuotasMost) {
      control[kRingLayout.tenant_quotas + tenant] =
          settings.quota > 0 ? static_cast<Word>(settings.quota) : ring::kTenantQuota;
    }
  }
  const Word base = slot_count / ring::priority::kLevels, rest = slot_count % ring::priority::kLevels;
  for (Word level = 0, at = 0; level <= ring::priority::kLevels; ++level) {
    control[kRingLayout.priority_offsets + level] = at;
    at += base + (level == ring::priority::kNormal ? rest : 0);
  }
  control[kRingLayout.priority_offsets + ring::priority::kLevels] = slot_count;
  kernel = {.control = control.data(),
            .control_words = static_cast<Word>(control.size()),
            .ring = slots.data(),
            .slots = slot_count,
            .debug = debug.data(),
            .io = io.data(),
            .lanes = lanes,
            .mode = settings.strict ? ring::Mode::kStrict : ring::Mode::kSafe,
            .by_priority = settings.by_priority,
            .enforces_quotas = settings.quota > 0};
}

RingKernel::RingKernel(const Setting& setting)
    : setting_(setting),
      port_{this},
      mesh_(setting.kernel, setting.program.board(), port_),
      kernels_(coll::reduce_kernels(setting.type, setting.op)),
      lanes_(setting.kernel.lanes),
      clocks_(setting.kernel.lanes),
      tasks_(setting.kernel.slots) {
  for (Word index = 0; index < setting.kernel.lanes; ++index) lanes_[index].index = index;
  if (setting.host.rank() == setting.settings.stopped_rank) {
    stop_after_ = static_cast<std::uint64_t>(setting.settings.stopped_after);
  }
}

void RingKernel::at(Picoseconds when_ps, std::function<void()> act) {
  timers_.emplace(std::pair(when_ps, timer_count_++), std::move(act));
  nudge();
}

void RingKernel::see_arrival(Word connection) {
  at(setting_.host.now_ps() + setting_.settings.flag_ps, [this, connection] {
    const Word flag = kRingLayout.observables + setting_.program.board().arrivals_of(connection);
    ring::PlainWords::add(setting_.kernel.control + flag, 1);
  });
}

void RingKernel::run() {
  RankHost& host = setting_.host;
  host.spend(setting_.settings.launch_ps);
  while (!stopping_) {
    bool moved = act_on_time();
    const bool stands_still = stop_after_ && ended_ >= *stop_after_;
    for (std::size_t lane = 0; lane < lanes_.size() && !stands_still; ++lane) moved = advance(lane) || moved;
    if (!moved) host.doze(this, next_time(), "megakernel: slots, flags");
  }
  // Lanes that look for work see SHUTDOWN; what another one waits for will not come.
  User user{this};
  for (ring::KernelLane& lane : lanes_) {
    if (lane.phase == ring::LanePhase::kScan) ring::step<ring::PlainWords>(setting_.kernel, lane, user);
  }
}

void RingKernel::stop() {
  setting_.kernel.control[ring::control_word::kShutdown] = 1;
  stopping_ = true;
  nudge();
}

bool RingKernel::act_on_time() {
  bool acted = false;
  while (!timers_.empty() && timers_.begin()->first.first <= setting_.host.now_ps()) {
    const std::function<void()> act = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    act();
    acted = true;
  }
  return acted;
}

bool RingKernel::works() const {
  if (!timers_.empty()) return true;
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    if (lanes_[lane].phase == ring::LanePhase::kRun && clocks_[lane].free_ps > setting_.host.now_ps()) return true;
  }
  return false;
}

Picoseconds RingKernel::next_time() const {
  const Picoseconds now_ps = setting_.host.now_ps();
  Picoseconds next_ps = timers_.empty() ? -1 : timers_.begin()->first.first;
  for (const LaneClock& clock : clocks_) {
    if (clock.free_ps > now_ps && (next_ps < 0 || clock.free_ps < next_ps)) next_ps = clock.free_ps;
  }
  return next_ps;
}

bool RingKernel::advance(std::size_t index) {
  ring::KernelLane& lane = lanes_[index];
  LaneClock& clock = clocks_[index];
  const Picoseconds now_ps = setting_.host.now_ps();
  if (clock.free_ps > now_ps) return false;
  if (lane.phase == ring::LanePhase::kRun) return run_lane(lane, clock);
  User user{this};
  const ring::Step now = ring::step<ring::PlainWords>(setting_.kernel, lane, user);
  switch (now) {
    case ring::Step::kNothing:
    case ring::Step::kStopped:
      return false;
    case ring::Step::kClaimed:
      note(lane, RingEventKind::kClaim);
      clock = {.free_ps = now_ps + setting_.settings.claim_ps + setting_.settings.poll_ps};
      return true;
    case ring::Step::kAbandoned:
      note(lane, RingEventKind::kAbandoned);
      return true;
    case ring::Step::kGivenBack:
      note(lane, RingEventKind::kRequeue);
      return true;
    case ring::Step::kEnded:
      ++ended_;
      note(lane, event_kind_of(lane.ends_as));
      setting_.host.nudge(ended());
      return true;
    default:
      return true;
  }
}

bool RingKernel::run_lane(ring::KernelLane& lane, LaneClock& clock) {
  const Word* const words = ring::slot_at(setting_.kernel, lane.slot);
  const Word op = words[ring::slot_word::kOpcode];
  const Word* const args = words + kRingLayout.arg0_word;
  const Picoseconds now_ps = setting_.host.now_ps();
  if (!clock.paid) {
    // Whoever waits is nudged; what it waits for is seen by its next poll.
    if (ring::opcode::is_mesh(op) && !mesh_.is_ready(op, args)) return false;
    clock.paid = true;
    clock.free_ps = now_ps + cost_of(op, args);
    if (clock.free_ps > now_ps) return true;
  }
  User user{this};
  const ring::Step now = ring::step<ring::PlainWords>(setting_.kernel, lane, user);
  if (now == ring::Step::kWaiting) {
    // A load miss, which polls; one that takes no time would never let time go on.
    clock.free_ps = now_ps + std::max(setting_.settings.poll_ps, Picoseconds{kPicosecondsPerNanosecond});
    return true;
  }
  note(lane, op == ring::opcode::kPut      ? RingEventKind::kPut
             : op == ring::opcode::kSignal ? RingEventKind::kSignal
             : op == ring::opcode::kWait   ? RingEventKind::kWait
                                           : RingEventKind::kRun);
  return true;
}

Picoseconds RingKernel::cost_of(Word op, const Word* args) const {
  const Megakernel& settings = setting_.settings;
  const auto moved = [&](std::uint64_t bytes) -> Picoseconds {
    if (settings.memory_bps == 0) return 0;
    return static_cast<Picoseconds>(static_cast<double>(bytes) / static_cast<double>(settings.memory_bps) *
                                    static_cast<double>(kPicosecondsPerSecond));
  };
  const std::uint64_t count = args[arg::kCount];
  switch (op) {
    case ring::opcode::kWait:
      return settings.poll_ps;
    case ring::opcode::kReduce:
      return moved(3 * count * coll::size_of(setting_.type));  // two operands and a result
    case ring::opcode::kCopy:
      return moved(2 * count);
    case ring::opcode::kCompute:
      return static_cast<Picoseconds>(count) * kPicosecondsPerNanosecond;
    case kTaskOpcode:
      return static_cast<Picoseconds>(args[1]) * kPicosecondsPerNanosecond;
    default:
      return 0;
  }
}

void RingKernel::note(const ring::KernelLane& lane, RingEventKind kind) {
  const Word* const words = ring::slot_at(setting_.kernel, lane.slot);
  const Word* const args = words + kRingLayout.arg0_word;
  const Word op = words[ring::slot_word::kOpcode];
  RingEvent event{
      .at_ps = setting_.host.now_ps(), .rank = setting_.host.rank(), .slot = lane.slot, .opcode = op, .kind = kind};
  const Word connection = args[arg::kConnection];
  if (op == ring::opcode::kPut || op == ring::opcode::kSignal) {
    const auto& send = setting_.program.sends[connection];
    event.source = event.rank;
    event.destination = send.peer;
    event.channel = send.channel;
  } else if (op == ring::opcode::kWait) {
    const auto& receive = setting_.program.receives[connection];
    event.source = receive.peer;
    event.destination = event.rank;
    event.channel = receive.channel;
  }
  if (event.source >= 0) {
    event.message = args[arg::kMessage];
    event.epoch = args[arg::kEpoch];
  }
  setting_.trace.add(event);
}

char* RingKernel::bytes_at(Word space, Word offset) {
  return reinterpret_cast<char*>(setting_.spaces[space].data()) + offset;
}

ring::End RingKernel::User::operator()(const ring::Operation& op) const {
  if (op.opcode != kTaskOpcode) return kernel->mesh_(op);
  const auto end = static_cast<ring::End>(op.args[0]);
  return kernel->tasks_[op.slot]++ < op.args[2] ? end : ring::End::kDone;
}

bool RingKernel::Port::put(Word connection, Word space, Word offset, Word bytes, Word /*message*/) {
  kernel->proxy_->put(connection, {.data = kernel->bytes_at(space, offset), .size_bytes = bytes, .space = space});
  return true;
}

void RingKernel::Port::signal(Word connection, Word puts) {
  RingProxy* const proxy = kernel->proxy_;
  const Picoseconds seen_ps = kernel->setting_.host.now_ps() + kernel->setting_.settings.doorbell_ps;
  kernel->at(seen_ps, [proxy, connection, puts] { proxy->commit(connection, puts); });
}

Word RingKernel::Port::completed(Word connection) const { return kernel->proxy_->completed(connection); }

void RingKernel::Port::reduce(const Word* args) {
  const Word spaces = args[arg::kSpaces];
  const auto space = [spaces](unsigned index) { return spaces >> 8U * (index + 1) & 0xffU; };
  reduce_function_of(kernel->kernels_, spaces & 0xffU)(
      kernel->bytes_at(space(2), args[arg::kThird]), kernel->bytes_at(space(0), args[arg::kFirst]),
      kernel->bytes_at(space(1), args[arg::kSecond]), args[arg::kCount],
      static_cast<std::uint32_t>(kernel->setting_.host.ranks()));
}

void RingKernel::Port::copy(const Word* args) {
  const Word spaces = args[arg::kSpaces];
  std::memcpy(kernel->bytes_at(spaces >> 24U, args[arg::kThird]),
              kernel->bytes_at(spaces >> 8U & 0xffU, args[arg::kFirst]), args[arg::kCount]);
}

}  // namespace meshbed::cli
