// A RingWorld's state as bytes, and back.
#include <algorithm>
#include <cstring>

#include "testbed/verify/ring_world.h"

namespace meshbed::testbed {

using ring::Word;

namespace {

/// What distinguishes lanes; one that looks for work has nothing of the slot that it had.
struct LaneBytes {
  std::uint8_t phase = 0, slot = 0, seen = 0, level = 0, ends_as = 0;
};

/// State as bytes: words that differ from the first ones by place and value, then the rest as it is.
class StateWriter {
 public:
  template <typename Value>
  void put(Value value) {
    char bytes[sizeof(Value)];
    std::memcpy(bytes, &value, sizeof(Value));
    text_.append(bytes, sizeof(Value));
  }
  void put_changes(const std::vector<Word>& now, const std::vector<Word>& first) {
    const std::size_t count_at = text_.size();
    std::uint16_t count = 0;
    put(count);
    for (std::size_t word = 0; word < now.size(); ++word) {
      if (now[word] == first[word]) continue;
      put(static_cast<std::uint16_t>(word));
      put(now[word]);
      ++count;
    }
    std::memcpy(text_.data() + count_at, &count, sizeof(count));
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

class StateReader {
 public:
  explicit StateReader(const std::string& text) : text_(text) {}
  template <typename Value>
  Value get() {
    Value value;
    std::memcpy(&value, text_.data() + at_, sizeof(Value));
    at_ += sizeof(Value);
    return value;
  }
  void get_changes(std::vector<Word>& now, const std::vector<Word>& first) {
    std::copy(first.begin(), first.end(), now.begin());
    for (auto left = get<std::uint16_t>(); left > 0; --left) {
      const auto word = get<std::uint16_t>();
      now[word] = get<Word>();
    }
  }

 private:
  const std::string& text_;
  std::size_t at_ = 0;
};

}  // namespace

std::string RingWorld::state() const {
  StateWriter writer;
  writer.put(masks_);
  for (std::size_t index = 0; index < ranks_.size(); ++index) {
    const Rank& rank = ranks_[index];
    writer.put_changes(rank.control, first_control_[index]);
    writer.put_changes(rank.slots, first_slots_[index]);
    for (const ring::KernelLane& lane : rank.lanes) {
      LaneBytes bytes{.phase = static_cast<std::uint8_t>(lane.phase)};
      if (lane.phase != ring::LanePhase::kScan) {
        bytes = {.phase = bytes.phase,
                 .slot = static_cast<std::uint8_t>(lane.slot),
                 .seen = static_cast<std::uint8_t>(lane.seen),
                 .level = static_cast<std::uint8_t>(lane.level),
                 .ends_as = static_cast<std::uint8_t>(lane.phase == ring::LanePhase::kFinish ? lane.ends_as : 0)};
      }
      writer.put(bytes);
    }
    for (Word slot = 0; slot < program_.slots; ++slot) {
      writer.put(rank.executed[slot]);
      writer.put(rank.published[slot]);
    }
    for (const std::uint8_t byte : {rank.placed, rank.items, static_cast<std::uint8_t>(rank.wrote_words),
                                    static_cast<std::uint8_t>(rank.wrote_status)}) {
      writer.put(byte);
    }
    for (std::size_t connection = 0; connection < rank.put.size(); ++connection) {
      for (const auto* counts : {&rank.put, &rank.signalled, &rank.posted}) writer.put((*counts)[connection]);
    }
    for (const std::vector<Message>& arrivals : rank.arrivals) {
      writer.put(static_cast<std::uint8_t>(arrivals.size()));
      for (const Message& message : arrivals) writer.put(message);
    }
  }
  return writer.take();
}

void RingWorld::restore(const std::string& state) {
  StateReader reader(state);
  masks_ = reader.get<std::uint8_t>();
  for (std::size_t index = 0; index < ranks_.size(); ++index) {
    Rank& rank = ranks_[index];
    reader.get_changes(rank.control, first_control_[index]);
    reader.get_changes(rank.slots, first_slots_[index]);
    for (ring::KernelLane& lane : rank.lanes) {
      const auto bytes = reader.get<LaneBytes>();
      lane = {.index = lane.index,
              .phase = static_cast<ring::LanePhase>(bytes.phase),
              .slot = bytes.slot,
              .seen = bytes.seen,
              .level = bytes.level,
              .ends_as = bytes.ends_as};
    }
    for (Word slot = 0; slot < program_.slots; ++slot) {
      rank.executed[slot] = reader.get<std::uint8_t>();
      rank.published[slot] = reader.get<std::uint8_t>();
    }
    rank.placed = reader.get<std::uint8_t>();
    rank.items = reader.get<std::uint8_t>();
    rank.wrote_words = reader.get<std::uint8_t>() != 0;
    rank.wrote_status = reader.get<std::uint8_t>() != 0;
    for (std::size_t connection = 0; connection < rank.put.size(); ++connection) {
      for (auto* counts : {&rank.put, &rank.signalled, &rank.posted}) {
        (*counts)[connection] = reader.get<std::uint8_t>();
      }
    }
    for (std::vector<Message>& arrivals : rank.arrivals) {
      arrivals.resize(reader.get<std::uint8_t>());
      for (Message& message : arrivals) message = reader.get<Message>();
    }
  }
}

}  // namespace meshbed::testbed
