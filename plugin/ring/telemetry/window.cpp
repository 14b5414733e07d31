#include "plugin/ring/telemetry/window.h"

#include <algorithm>
#include <map>
#include <set>

#include "plugin/ring/telemetry/telemetry.h"

namespace meshbed::ring {
namespace {

/// Counts the slot's status; EMPTY and unknown ones have none.
void count_status(WindowTelemetry& window, Word value) {
  switch (value) {
    case status::kPublished:
      ++window.published;
      break;
    case status::kClaimed:
      ++window.claimed;
      break;
    case status::kDone:
      ++window.done;
      break;
    case status::kWaitIo:
      ++window.wait_io;
      break;
    case status::kYield:
      ++window.yield;
      break;
    case status::kRequeue:
      ++window.requeue;
      break;
    case status::kFault:
      ++window.fault;
      break;
    default:
      break;
  }
}

}  // namespace

Result<std::vector<Publication>> window_slots(const RouteWindow& window, Word start_slot, const Layout& layout) {
  const std::size_t count = window.required.size() + window.lookahead.size();
  if (count == 0) return refused("window " + std::to_string(window.ticket) + " has no slot");
  if (count > kSlotsMost || start_slot > kSlotsMost - count) {
    return refused("window " + std::to_string(window.ticket) + " of " + std::to_string(count) + " slots from slot " +
                   std::to_string(start_slot) + " on: there are " + std::to_string(kSlotsMost) + " at most");
  }
  const std::size_t most = std::min<std::size_t>(kWindowPayloadMost, layout.args_per_slot - 2);
  std::vector<Publication> slots;
  slots.reserve(count);
  const auto add = [&](const std::vector<Word>& payload, Word kind) {
    Publication slot{.slot = static_cast<Word>(start_slot + slots.size()),
                     .tenant = window.tenant,
                     .opcode = window.opcode,
                     .args = {window.ticket, kind}};
    slot.args.insert(slot.args.end(), payload.begin(), payload.end());
    slots.push_back(std::move(slot));
  };
  for (const auto* group : {&window.required, &window.lookahead}) {
    for (const std::vector<Word>& payload : *group) {
      if (payload.size() > most) {
        return refused("window " + std::to_string(window.ticket) + ": a payload of " + std::to_string(payload.size()) +
                       " words; a slot has room for " + std::to_string(most) + " after ticket and class");
      }
      add(payload, group == &window.required ? kWindowRequired : kWindowLookahead);
    }
  }
  return slots;
}

Publication batch_fence(Word slot, Word tenant, Word items, Word tag) {
  return {.slot = slot, .tenant = tenant, .opcode = opcode::kBatchFence, .args = {items, tag}};
}

Result<void> publish_all(MutableBytes ring, const Layout& layout, Mode mode, const std::vector<Publication>& slots) {
  std::set<Word> named;
  const Result<Word> count = slot_count(ring.size());
  if (!count) return count.error();
  for (const Publication& slot : slots) {
    if (const Result<void> fits = check_publication(*count, layout, mode, slot); !fits) return fits;
    if (!named.insert(slot.slot).second) {
      return refused("slot " + std::to_string(slot.slot) + " stands twice among what is published together");
    }
    const Word now = load_word(ring.data(), std::uint64_t{slot.slot} * kSlotWords);
    if (!status::is_free(now)) {
      return refused("slot " + std::to_string(slot.slot) + " is " + status_name(now) +
                     ": only EMPTY and DONE slots are published into");
    }
  }
  for (const Publication& slot : slots) {
    if (const Result<void> done = publish(ring, layout, mode, slot); !done) return done;
  }
  return ok();
}

Result<void> publish_batch(MutableBytes ring, const Layout& layout, Mode mode, Word start_slot,
                           std::vector<Publication> items, Word tag) {
  if (items.empty()) return refused("a batch of no items");
  if (items.size() >= kSlotsMost - start_slot) return refused("a batch of more slots than indices name");
  Word slot = start_slot;
  for (Publication& item : items) item.slot = slot++;
  const Word tenant = items.front().tenant;
  items.push_back(batch_fence(slot, tenant, static_cast<Word>(items.size()), tag));
  return publish_all(ring, layout, mode, items);
}

std::vector<WindowTelemetry> windows_of(std::span<const SlotSnapshot> slots, std::vector<Word> opcodes, Mode mode) {
  std::sort(opcodes.begin(), opcodes.end());
  opcodes.erase(std::unique(opcodes.begin(), opcodes.end()), opcodes.end());
  std::map<std::pair<Word, Word>, WindowTelemetry> windows;  // by ticket and opcode: the order of the answer
  for (const SlotSnapshot& slot : slots) {
    if (!std::binary_search(opcodes.begin(), opcodes.end(), slot.opcode)) continue;
    if (mode == Mode::kSafe && slot.status == status::kEmpty) continue;  // quirk window-empty-slot
    const auto [at, is_new] = windows.try_emplace({slot.args[0], slot.opcode});
    WindowTelemetry& window = at->second;
    if (is_new) {
      window.ticket = slot.args[0];
      window.opcode = slot.opcode;
      window.tenant = slot.tenant;
    }
    if (slot.args[1] == kWindowRequired) ++window.required;
    if (slot.args[1] == kWindowLookahead) ++window.lookahead;
    count_status(window, slot.status);
  }
  std::vector<WindowTelemetry> list;
  list.reserve(windows.size());
  for (auto& [key, window] : windows) list.push_back(window);
  return list;
}

}  // namespace meshbed::ring
