// A warp's turn: which lanes run, how far, and when others go.
#include "sim/cuda/ptx/warp.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "sim/cuda/ptx/lanes.h"

namespace meshbed::sim::ptx {

namespace {

// Instructions that the lowest group may run while others of its warp stand ready, and how long theirs is then.
constexpr std::uint64_t kPatience = 512;
constexpr std::uint64_t kSlice = 256;
// So many polls in a row that saw nothing new, while nothing changed, and that came round to the first of them, are a
// spin.
constexpr std::uint32_t kPollsSeen = 4;
constexpr std::size_t kPollsFewest = 64, kPollsMost = 65536;  // whose values a warp keeps
constexpr std::size_t kCircles = 64;                          // groups of lanes whose polls it follows

/// The group that runs: its lanes; `stop`: where it must look again, because others stand there.
struct Chosen {
  std::uint32_t lanes = 0;
  std::uint32_t stop = kAllLanes;
  std::uint64_t most = ~std::uint64_t{0};
};

Chosen choose(Warp& warp) {
  const std::uint32_t ready = warp.runnable();
  std::uint32_t best = kLanes;
  const bool fair = warp.starving > kPatience;
  each_active(ready, [&](std::uint32_t lane) {
    if (best == kLanes) {
      best = lane;
      return;
    }
    if (fair) {
      if (warp.last_run[lane] < warp.last_run[best]) best = lane;
      return;
    }
    const Frame* mine = warp.lane_frame[lane];
    const Frame* its = warp.lane_frame[best];
    if (mine->depth != its->depth ? mine->depth > its->depth : warp.lane_position[lane] < warp.lane_position[best])
      best = lane;
  });
  Chosen chosen;
  Frame* frame = warp.lane_frame[best];
  const std::uint32_t position = warp.lane_position[best];
  ++warp.turn;
  each_active(ready, [&](std::uint32_t lane) {
    if (warp.lane_frame[lane] == frame && warp.lane_position[lane] == position) {
      chosen.lanes |= 1U << lane;
      warp.last_run[lane] = warp.turn;
    } else if (warp.lane_frame[lane] == frame && warp.lane_position[lane] > position) {
      chosen.stop = std::min(chosen.stop, warp.lane_position[lane]);
    }
  });
  if (chosen.lanes == ready) {
    warp.starving = 0;
  } else if (fair) {
    chosen.most = kSlice;
    warp.starving = 0;
  } else {
    chosen.most = kPatience;
  }
  warp.enter(frame);
  warp.position = position;
  warp.active = chosen.lanes;
  return chosen;
}

}  // namespace

void Warp::begin(Grid& of, Block& in, std::uint32_t at, std::uint32_t lanes) {
  static_cast<WarpState&>(*this) = {};
  grid = &of;
  block = &in;
  index = at;
  alive = lanes == kLanes ? kAllLanes : (1U << lanes) - 1;
  idle = ~alive;
  polls.forget();
  circles.clear();
  far_words.clear();
  const Function& function = of.program->functions[of.kernel->function];
  Frame* first = enter_frame(*this, function, nullptr, alive);
  if (first == nullptr) return;  // a kernel's own local memory was looked at before
  each_active(alive, [&](std::uint32_t lane) { lane_frame[lane] = first; });
}

void run_warp(Warp& warp, std::uint64_t instructions) {
  Counts& counts = warp.grid->counts;
  std::uint64_t done = 0;
  warp.yields = false;
  if (warp.waits_far) {
    if (warp.grid->request.now_ps() < warp.far_until_ps) return;
    warp.waits_far = false;
    warp.paid_far = std::exchange(warp.pays_far, false);
  }
  while (done < instructions && !warp.grid->fault) {
    if (warp.runnable() == 0) {
      if (warp.warp_waiting == 0) break;
      settle_exchanges(warp);
      if (warp.runnable() == 0) break;
    }
    const Chosen chosen = choose(warp);
    const std::uint64_t most = std::min(chosen.most, instructions - done);
    std::uint64_t count = 0;
    warp.event = false;
    const Instruction* code = warp.frame->function->code.data();
    std::uint64_t lane_count = 0, flops = 0;
    do {
      const Instruction& in = code[warp.position++];
      std::uint32_t lanes = warp.active;
      if (in.predicate != kNowhere) {
        lanes &= *reinterpret_cast<const std::uint32_t*>(warp.base[0] + in.predicate) ^ in.predicate_flip;
      }
      const std::uint32_t width = count_lanes(lanes);
      lane_count += width;
      flops += in.flops * width;
      ++count;
      in.run(warp, in, lanes);
    } while (!warp.event && warp.position < chosen.stop && count < most);
    counts.warp_instructions += count;
    counts.lane_instructions += lane_count;
    counts.flops += flops;
    done += count;
    if (chosen.most != ~std::uint64_t{0}) warp.starving += count;
    each_active(warp.active, [&](std::uint32_t lane) { warp.lane_position[lane] = warp.position; });
    // A warp that saw nothing new at several polls, and one that asks for a pause, lets others go.
    if (warp.yields && warp.runnable() == chosen.lanes) break;
    if (warp.spins() || warp.waits_far) break;
  }
}

Polls::Sight Polls::look(std::uint64_t key, std::uint64_t seen) {
  if (used_ * 2 >= all_.size()) grow();
  std::size_t at = key & (all_.size() - 1);
  while (all_[at].key != 0 && all_[at].key != key) at = (at + 1) & (all_.size() - 1);
  const Sight sight = all_[at].key == 0 ? Sight::kFirst : all_[at].seen == seen ? Sight::kSame : Sight::kNew;
  used_ += sight == Sight::kFirst ? 1 : 0;
  all_[at] = {key, seen};
  return sight;
}

void Polls::forget() {
  if (all_.size() > kPollsFewest) all_ = {};
  if (used_ > 0) std::fill(all_.begin(), all_.end(), Poll{});
  used_ = 0;
}

void Polls::grow() {
  std::vector<Poll> before = std::exchange(all_, {});
  used_ = 0;
  // Code that reads so many places does not poll one of them.
  if (before.size() >= kPollsMost) before.clear();
  all_.resize(before.empty() ? kPollsFewest : before.size() * 2);
  for (const Poll& poll : before) {
    if (poll.key != 0) look(poll.key, poll.seen);
  }
}

namespace {

std::uint64_t key_of(const Instruction& in, std::uint32_t lanes, std::uint64_t places) {
  return poll_hash(poll_hash(places, reinterpret_cast<std::uintptr_t>(&in)), lanes) | 1U;
}

}  // namespace

void note_far_poll(Warp& warp, const Instruction& in, std::uint32_t lanes, std::uint64_t places, std::uint64_t seen) {
  const std::uint64_t key = key_of(in, lanes, places);
  const Polls::Sight sight = warp.polls.look(key, seen);
  if (sight != Polls::Sight::kSame || warp.far_round != warp.grid->far_round) {
    warp.far_first = 0;
    warp.far_round = warp.grid->far_round;
  }
  if (sight == Polls::Sight::kSame) {
    if (warp.far_first == 0) {
      warp.far_first = key;
      warp.far_seen = 0;
    } else if (key == warp.far_first) {
      ++warp.far_seen;
    }
    return;
  }
  ++warp.grid->news;
  if (sight == Polls::Sight::kFirst) return;
  warp.waits_far = true;
  warp.far_until_ps = warp.grid->request.now_ps() + warp.grid->request.far_news_ps;
  warp.event = true;
}

void note_poll(Warp& warp, const Instruction& in, std::uint32_t lanes, std::uint64_t places, std::uint64_t seen) {
  const std::uint64_t now = warp.grid->changes + 1;
  if (warp.polled_at != now) {
    warp.polled_at = now;
    warp.polled_lanes = 0;
  }
  const std::uint64_t key = key_of(in, lanes, places);
  const bool is_same = warp.polls.look(key, seen) == Polls::Sight::kSame;
  const auto found = std::find_if(warp.circles.begin(), warp.circles.end(),
                                  [lanes](const PollCircle& circle) { return circle.lanes == lanes; });
  if (!is_same) {
    ++warp.grid->news;
    if (found != warp.circles.end()) {
      *found = warp.circles.back();
      warp.circles.pop_back();
    }
    warp.polled_lanes &= ~lanes;
    return;
  }
  const bool is_full = warp.circles.size() == kCircles;
  PollCircle& circle = found != warp.circles.end() ? *found
                       : is_full                   ? warp.circles[warp.circle_next++ % kCircles]
                                                   : warp.circles.emplace_back();
  if (circle.lanes != lanes || circle.since != now) {
    circle = {.lanes = lanes, .count = 1, .first = key, .since = now};
    return;
  }
  ++circle.count;
  if (key == circle.first && circle.count >= kPollsSeen) warp.polled_lanes |= lanes;
  if ((warp.polled_lanes & lanes) == lanes) warp.event = true;
}

bool Warp::idles_far() const {
  return waits_far && far_first != 0 && far_round == grid->far_round && far_seen >= kPollsSeen;
}

bool Warp::has_stale_word(bool forget) {
  const auto is_stale = [this](const FarWord& word) {
    const void* now = grid->memory->at(word.address, word.bytes, false);
    return now == nullptr || std::memcmp(now, &word.value, word.bytes) != 0;
  };
  if (forget) std::erase_if(far_words, is_stale);
  return std::any_of(far_words.begin(), far_words.end(), is_stale);
}

bool Warp::spins() const { return polled_at == grid->changes + 1 && (runnable() & ~polled_lanes) == 0; }

}  // namespace meshbed::sim::ptx
