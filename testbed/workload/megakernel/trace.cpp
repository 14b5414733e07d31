#include "testbed/workload/megakernel/trace.h"

#include <fmt/compile.h>
#include <fmt/format.h>

#include <iterator>
#include <map>
#include <tuple>

namespace meshbed::testbed {
namespace {

using RingMessage = std::tuple<int, int, int, int, std::uint32_t, std::uint32_t>;

/// How far a message has come: in this order, and no other.
enum class MessageState : std::uint8_t { kNothing, kClaimed, kPut, kSignalled, kWaited, kDone };

std::string ring_message_text(const RingEvent& event) {
  return fmt::format("message {} of epoch {} from rank {} to rank {}, channel {}", event.message, event.epoch,
                     event.source, event.destination, event.channel);
}

}  // namespace

const char* name_of(RingEventKind kind) {
  switch (kind) {
    case RingEventKind::kPublish:
      return "publish";
    case RingEventKind::kClaim:
      return "claim";
    case RingEventKind::kPut:
      return "put";
    case RingEventKind::kSignal:
      return "signal";
    case RingEventKind::kWait:
      return "wait";
    case RingEventKind::kRun:
      return "run";
    case RingEventKind::kDone:
      return "done";
    case RingEventKind::kYield:
      return "yield";
    case RingEventKind::kRequeue:
      return "requeue";
    case RingEventKind::kFault:
      return "fault";
    case RingEventKind::kAbandoned:
      return "abandoned";
    case RingEventKind::kCredit:
      return "credit";
  }
  return "";
}

std::string RingTrace::csv() const {
  fmt::memory_buffer text;
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "at_ps,rank,slot,opcode,event,source,destination,channel,epoch,message,ring,tenant,priority\n");
  for (const RingEvent& event : events_) {
    fmt::format_to(out, FMT_COMPILE("{},{},{},{},{},{},{},{},{},{},{},{},{}\n"), event.at_ps, event.rank, event.slot,
                   event.opcode, name_of(event.kind), event.source, event.destination, event.channel, event.epoch,
                   event.message, event.ring, event.tenant, event.priority);
  }
  return fmt::to_string(text);
}

void RingTrace::add_to(sim::Digest& digest) const {
  digest.add(static_cast<std::uint64_t>(events_.size()));
  for (const RingEvent& event : events_) {
    digest.add(static_cast<std::uint64_t>(event.at_ps));
    digest.add(static_cast<std::uint64_t>(event.rank) << 32U | event.slot);
    digest.add(static_cast<std::uint64_t>(event.opcode) << 32U | static_cast<std::uint64_t>(event.kind));
    digest.add(static_cast<std::uint64_t>(event.epoch) << 32U | event.message);
    if (event.ring > 0) digest.add(static_cast<std::uint64_t>(event.ring));
  }
}

sim::Proof RingTrace::in_order() const {
  constexpr const char* kName = "each message: slot claimed, put, signalled, waited for, done, in this order";
  std::map<RingMessage, MessageState> states;
  std::size_t done = 0;
  for (const RingEvent& event : events_) {
    if (event.source < 0) continue;
    MessageState& state =
        states[{event.source, event.destination, event.ring, event.channel, event.epoch, event.message}];
    const auto move = [&](MessageState from, MessageState to) {
      if (state != from) return false;
      state = to;
      return true;
    };
    bool fine = true;
    if (event.opcode == ring::opcode::kPut && event.kind == RingEventKind::kClaim) {
      fine = move(MessageState::kNothing, MessageState::kClaimed);
    } else if (event.kind == RingEventKind::kPut) {
      fine = move(MessageState::kClaimed, MessageState::kPut);
    } else if (event.kind == RingEventKind::kSignal) {
      fine = move(MessageState::kPut, MessageState::kSignalled);
    } else if (event.kind == RingEventKind::kWait) {
      fine = move(MessageState::kSignalled, MessageState::kWaited);
    } else if (event.opcode == ring::opcode::kWait && event.kind == RingEventKind::kDone) {
      fine = move(MessageState::kWaited, MessageState::kDone);
      ++done;
    }
    if (!fine) {
      return {kName, false,
              fmt::format("{}: {} of slot {} at {} ps came out of order", ring_message_text(event), name_of(event.kind),
                          event.slot, event.at_ps)};
    }
  }
  if (done == 0) return sim::nothing_to_check(kName, "no message was waited for");
  return {kName, true, fmt::format("{} messages, {} events", done, events_.size())};
}

}  // namespace meshbed::testbed
