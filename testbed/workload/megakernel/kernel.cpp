#include <algorithm>
#include <utility>

#include "plugin/ring/abi/control.h"
#include "plugin/ring/telemetry/recorded_work.h"
#include "testbed/scenario/megakernel/blocks.h"
#include "testbed/workload/megakernel/landings.h"
#include "testbed/workload/megakernel/rank.h"
#include "testbed/workload/megakernel/times.h"

namespace meshbed::testbed {

using ring::Word;
namespace arg = ring::mesh_arg;

namespace {

/// Operands and results of a reduction that are read from or written to memory. A chain in one pass reads each input
/// once and writes only the final result.
std::uint64_t streams_of(Word spaces) {
  const auto form = static_cast<coll::Form>(spaces & arg::kFormMask);
  if ((spaces & arg::kOnChip) == 0 || form == coll::Form::kOnly) return 3;
  return form == coll::Form::kBetween ? 1 : 2;
}

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

}  // namespace

RingBuffers::RingBuffers(const Megakernel& settings, Word slot_count, Word lanes, const ring::MeshBoard& board)
    : control(std::max<std::size_t>(kRingLayout.control_min_words, kRingLayout.observables + board.observables())),
      slots(std::size_t{slot_count} * ring::kSlotWords),
      debug(ring::kDebugRecordsWord + ring::kDebugRecords * ring::kDebugRecordWords),
      io(std::size_t{ring::kIoEntries} * ring::kIoEntryWords) {
  control[ring::control_word::kTenantBase] = ring::control_word::kTenantMasks;
  for (Word tenant = 0; tenant < static_cast<Word>(settings.tenants); ++tenant) {
    if (tenant < ring::kTenantMasksMost) {
      control[ring::control_word::kTenantMasks + tenant] =
          settings.recorded ? settings.recorded->tenant_masks[tenant] : ring::kTenantMaskAll;
    }
    if (tenant < ring::kTenantQuotasMost) {
      control[kRingLayout.tenant_quotas + tenant] =
          settings.quota > 0 ? static_cast<Word>(settings.quota) : ring::kTenantQuota;
    }
  }
  const auto levels = ring::levels_of(slot_count);
  std::copy(levels.begin(), levels.end(), control.begin() + kRingLayout.priority_offsets);
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
      claimable_(setting.kernel),
      signals_(setting.program.sends.size()),
      tasks_(setting.kernel.slots),
      visible_ps_(setting.kernel.slots) {
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
  const Picoseconds now_ps = setting_.host.now_ps(), raised_ps = now_ps + setting_.settings.flag_ps;
  if (setting_.parts != nullptr) {
    const auto& from = setting_.program.receives[connection];
    setting_.parts->arrived(from.peer, setting_.host.rank(), from.channel, now_ps);
    setting_.parts->add(setting_.host.rank(), RingPart::kQueue, now_ps, raised_ps);
  }
  at(raised_ps, [this, connection] {
    const Word flag = kRingLayout.observables + setting_.program.board().arrivals_of(connection);
    ring::PlainWords::add(setting_.kernel.control + flag, 1);
    wake(wait_for_arrival_, connection);
  });
}

void RingKernel::wake(Lanes& lanes) {
  awake_.insert(lanes.begin(), lanes.end());
  lanes.clear();
}

void RingKernel::wake(std::unordered_map<Word, Lanes>& lanes, Word what) {
  const auto found = lanes.find(what);
  if (found == lanes.end()) return;
  awake_.insert(found->second.begin(), found->second.end());
  lanes.erase(found);
}

Word RingKernel::resident() const {
  return resident_of(setting_.settings, static_cast<Word>(lanes_.size()), setting_.ring);
}

void RingKernel::published(Word slot) {
  if (!claimable_.add(slot)) return;
  // Wakes only lanes with a place: blocks without one have not started, and nothing else wakes a lane first.
  const Word awoken = resident();
  if (setting_.kernel.by_priority) {
    for (std::size_t lane = 0; lane < awoken; ++lane) {
      if (lanes_[lane].phase == ring::LanePhase::kScan) awake_.insert(lane);
    }
  } else if (const Word lane = ring::owner_of(setting_.kernel, slot); lane < awoken) {
    awake_.insert(lane);
  }
}

void RingKernel::posted(Word connection) { landings_->posted(connection); }
void RingKernel::arrived(Word connection) { landings_->arrived(connection); }
void RingKernel::landed(Word connection) { landings_->landed(connection); }

void RingKernel::see_completion(Word connection) {
  wake(wait_for_completion_, connection);
  nudge();
}

void RingKernel::see_room() {
  if (wait_for_room_.empty()) return;
  wake(wait_for_room_);
  nudge();
}

void RingKernel::see_io() {
  wake(wait_for_io_);
  nudge();
}

void RingKernel::run() {
  RankHost& host = setting_.host;
  launch_.start_ps = host.now_ps();
  host.spend(setting_.settings.launch_ps);
  launch_.end_ps = host.now_ps();
  while (!stopping_) {
    bool moved = act_on_time();
    if (!stands_still()) moved = pass() || moved;
    if (!moved) host.doze(this, next_time(), "megakernel: slots, flags");
  }
  // Lanes that look for work see SHUTDOWN; the waits of other lanes are not satisfied any more.
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
  return std::any_of(busy_.upper_bound({setting_.host.now_ps(), lanes_.size()}), busy_.end(),
                     [&](const auto& busy) { return lanes_[busy.second].phase == ring::LanePhase::kRun; });
}

bool RingKernel::sends() const { return proxy_ != nullptr && proxy_->sends(); }

Picoseconds RingKernel::next_time() const {
  Picoseconds next_ps = timers_.empty() ? -1 : timers_.begin()->first.first;
  const auto busy = busy_.upper_bound({setting_.host.now_ps(), lanes_.size()});
  if (busy != busy_.end() && (next_ps < 0 || busy->first < next_ps)) next_ps = busy->first;
  return next_ps;
}

void RingKernel::be_busy_until(std::size_t lane, Picoseconds until_ps) {
  clocks_[lane].free_ps = until_ps;
  if (until_ps <= setting_.host.now_ps()) return;
  busy_.emplace(until_ps, lane);
  awake_.erase(lane);
}

bool RingKernel::pass() {
  while (!busy_.empty() && busy_.begin()->first <= setting_.host.now_ps()) {
    awake_.insert(busy_.begin()->second);
    busy_.erase(busy_.begin());
  }
  bool moved = false;
  // A lane that is woken by another is stepped in this pass if it comes later in the order, else in the next.
  for (auto at = awake_.begin(); at != awake_.end();) {
    const std::size_t lane = *at;
    moved = advance(lane) || moved;
    at = awake_.upper_bound(lane);
  }
  return moved;
}

bool RingKernel::look_for_work(ring::KernelLane& lane) {
  if (setting_.kernel.control[ring::control_word::kShutdown] != 0) {
    User user{this};
    ring::step<ring::PlainWords>(setting_.kernel, lane, user);
    awake_.erase(lane.index);
    return false;
  }
  if (claimable_.find(lane)) return true;
  // A lane that may not claim the present slots looks again at each pass: a tenant's permission sends no wake-up.
  if (!claimable_.any_for(lane)) awake_.erase(lane.index);
  return false;
}

void RingKernel::sleep_until_ready(std::size_t lane, ring::MeshNeed need, const Word* args) {
  awake_.erase(lane);
  switch (need) {
    case ring::MeshNeed::kAfter:
      wait_for_id_[args[arg::kAfter]].push_back(lane);
      break;
    case ring::MeshNeed::kAlsoAfter:
      wait_for_id_[args[arg::kAlsoAfter]].push_back(lane);
      break;
    case ring::MeshNeed::kArrival:
      wait_for_arrival_[args[arg::kConnection]].push_back(lane);
      break;
    case ring::MeshNeed::kCompletion:
      wait_for_completion_[args[arg::kConnection]].push_back(lane);
      break;
    case ring::MeshNeed::kNothing:
      awake_.insert(lane);
      break;
  }
}

Word RingKernel::message_of(const Word* args) const {
  const auto each = static_cast<Word>(setting_.program.sends[args[arg::kConnection]].messages);
  return args[arg::kMessage] + (args[arg::kEpoch] - 1) * each;
}

bool RingKernel::may_describe(const ring::KernelLane& lane, LaneClock& clock, Word op, const Word* args) {
  const Word connection = args[arg::kConnection];
  // Messages and signals of a connection alternate, so that the receiver can distinguish them.
  if (op == ring::opcode::kPut && signals_[connection] != message_of(args)) {
    awake_.erase(lane.index);
    wait_for_signal_[connection].push_back(lane.index);
    return false;
  }
  // It takes its place in the queue together with its SIGNAL.
  if (op == ring::opcode::kPut && setting_.settings.fuses) return true;
  const bool reserves = setting_.settings.reserves;
  if (reserves && !clock.place) {
    clock.place = proxy_->reserve(connection);
    credit_waits_.overcommitted_most = std::max(credit_waits_.overcommitted_most, proxy_->overcommitted(connection));
  }
  if (reserves ? !proxy_->is_free(connection, *clock.place) : !proxy_->has_room(connection)) {
    if (clock.without_credit_ps < 0) {
      clock.without_credit_ps = setting_.host.now_ps();
      ++credit_waits_.count;
      note(lane, RingEventKind::kCredit);
    }
    awake_.erase(lane.index);
    wait_for_room_.push_back(lane.index);
    return false;
  }
  if (clock.without_credit_ps >= 0) credit_waits_.time_ps += setting_.host.now_ps() - clock.without_credit_ps;
  clock.without_credit_ps = -1;
  place_ = std::exchange(clock.place, std::nullopt);
  return true;
}

bool RingKernel::advance(std::size_t index) {
  ring::KernelLane& lane = lanes_[index];
  LaneClock& clock = clocks_[index];
  const Picoseconds now_ps = setting_.host.now_ps();
  if (clock.free_ps > now_ps) {
    awake_.erase(index);
    return false;
  }
  if (lane.phase == ring::LanePhase::kRun) return run_lane(lane, clock);
  if (lane.phase == ring::LanePhase::kScan) return look_for_work(lane);
  User user{this};
  const ring::Step now = ring::step<ring::PlainWords>(setting_.kernel, lane, user);
  switch (now) {
    case ring::Step::kNothing:
    case ring::Step::kStopped:
      awake_.erase(index);
      return false;
    case ring::Step::kClaimed:
      claimable_.claimed(lane.slot);
      note(lane, RingEventKind::kClaim);
      clock = {};
      be_busy_until(index, claimed_until(lane.slot, now_ps));
      if (setting_.parts != nullptr) {
        setting_.parts->add(setting_.host.rank(), RingPart::kQueue, now_ps, clock.free_ps);
      }
      return true;
    case ring::Step::kAbandoned:
      note(lane, RingEventKind::kAbandoned);
      return true;
    case ring::Step::kGivenBack:
      note(lane, RingEventKind::kRequeue);
      published(lane.slot);
      return true;
    case ring::Step::kEnded:
      ++ended_;
      if (lane.ends_as == ring::status::kDone) done_.push_back(lane.slot);
      published(lane.slot);  // if it is to be claimed again
      wake(wait_for_io_);    // its request may have freed an entry
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
    // A waiting lane is woken; its next poll sees the event.
    if (ring::opcode::is_mesh(op)) {
      if (const ring::MeshNeed need = mesh_.need_of(op, args); need != ring::MeshNeed::kNothing) {
        sleep_until_ready(lane.index, need, args);
        return false;
      }
    }
    clock.paid = true;
    const Picoseconds launched_ps = now_ps + launch_of(lane.slot);
    be_busy_until(lane.index, launched_ps + cost_of(op, args));
    note_part(op, now_ps, launched_ps, clock.free_ps);
    if (clock.free_ps > now_ps) return true;
  }
  const bool describes = has_descriptors() && (op == ring::opcode::kPut || op == ring::opcode::kSignal);
  if (describes && !may_describe(lane, clock, op, args)) return false;
  if (landings_ != nullptr) landings_->use(lane.slot, op, args);
  User user{this};
  const ring::Step now = ring::step<ring::PlainWords>(setting_.kernel, lane, user);
  if (now == ring::Step::kWaiting) {
    // A load miss, which the host will serve.
    setting_.host.nudge(ended());
    if (setting_.settings.poll_ps == 0 && setting_.kernel.mode == ring::Mode::kSafe) {
      awake_.erase(lane.index);
      wait_for_io_.push_back(lane.index);
      return true;
    }
    // It polls. A poll must take time, otherwise virtual time would not advance.
    be_busy_until(lane.index, now_ps + std::max(setting_.settings.poll_ps, Picoseconds{kPicosecondsPerNanosecond}));
    return true;
  }
  if (ring::opcode::is_mesh(op)) wake(wait_for_id_, args[arg::kId]);
  if (describes && op == ring::opcode::kSignal) wake(wait_for_signal_, args[arg::kConnection]);
  if (std::exchange(rang_, false)) be_busy_until(lane.index, now_ps + ring_of(setting_.settings));
  note(lane, op == ring::opcode::kPut      ? RingEventKind::kPut
             : op == ring::opcode::kSignal ? RingEventKind::kSignal
             : op == ring::opcode::kWait   ? RingEventKind::kWait
                                           : RingEventKind::kRun);
  return true;
}

Picoseconds RingKernel::claimed_until(Word slot, Picoseconds now_ps) const {
  const Megakernel& settings = setting_.settings;
  if (!has_ring(settings)) return now_ps;
  return std::max(now_ps, visible_ps_[slot]) + settings.claim_ps + settings.poll_ps;
}

Picoseconds RingKernel::launch_of(Word slot) const {
  if (setting_.begins == nullptr || setting_.settings.initiation != "launch") return 0;
  const Word* const words = ring::slot_at(setting_.kernel, slot);
  const Word id = words[kRingLayout.arg0_word + arg::kId];
  const bool begins =
      ring::opcode::is_mesh(words[ring::slot_word::kOpcode]) && id < setting_.begins->size() && (*setting_.begins)[id];
  return begins ? setting_.settings.operation_launch_ps : 0;
}

void RingKernel::note_part(Word op, Picoseconds begin_ps, Picoseconds launched_ps, Picoseconds end_ps) {
  if (setting_.parts == nullptr) return;
  const bool computes =
      op == ring::opcode::kCompute || op == ring::opcode::kReduce || op == ring::opcode::kCopy || op == kTaskOpcode;
  setting_.parts->add(setting_.host.rank(), RingPart::kLaunch, begin_ps, launched_ps);
  setting_.parts->add(setting_.host.rank(), computes ? RingPart::kCompute : RingPart::kQueue, launched_ps, end_ps);
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
      return moved(streams_of(args[arg::kSpaces]) * count * coll::size_of(setting_.type));
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
  RingEvent event{.at_ps = setting_.host.now_ps(),
                  .rank = setting_.host.rank(),
                  .ring = setting_.ring,
                  .slot = lane.slot,
                  .opcode = op,
                  .kind = kind};
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
  if (setting_.bytes != nullptr && kind == RingEventKind::kPut) {
    setting_.bytes->put(event, bytes_at(args[arg::kSpaces] >> 8U & 0xffU, args[arg::kFirst]), args[arg::kCount]);
  } else if (setting_.bytes != nullptr && kind == RingEventKind::kWait) {
    const coll::Landing& landing = setting_.program.receives[connection].landings[event.message];
    setting_.bytes->waited(
        event, bytes_at(static_cast<Word>(landing.area.space), static_cast<Word>(landing.area.offset_bytes)),
        landing.size_bytes);
  }
  setting_.trace.add(event);
}

}  // namespace meshbed::testbed
