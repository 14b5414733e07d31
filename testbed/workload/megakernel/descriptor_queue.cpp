#include "testbed/workload/megakernel/descriptor_queue.h"

#include <set>
#include <type_traits>
#include <vector>

#include "plugin/base/check.h"
#include "plugin/ring/queue/proxy_queue.h"

namespace meshbed::testbed {
namespace {

using ring::Word;

/// A signal alone is a put of nothing that counts the other's signal up.
ring::GinWords words_of(const RingDescriptor& what, const ring::GinScheme* /*scheme*/) {
  ring::GinDescriptor gin{.destination_offset = what.message, .destination_handle = what.connection};
  if (what.is_signal) {
    gin.op = ring::gin_op::kPut | ring::gin_op::kSignalInc;
    gin.signal = what.connection;
    gin.signal_value = 1;
  }
  if (what.is_put) {
    gin.size_bytes = what.bytes;
    gin.source_offset = what.offset;
    gin.source_handle = what.space + 1;
  }
  const auto words = ring::encode_gin(gin);
  MESHBED_CHECK_MSG(words, "a slot's message fits a GIN descriptor");
  return *words;
}

RingDescriptor descriptor_of(const ring::GinWords& words) {
  const auto gin = ring::decode_gin(words);
  MESHBED_CHECK_MSG(gin, "what was encoded is decoded");
  const auto source = static_cast<Word>(gin->source_handle);  // 0: a signal alone
  return {.is_put = source > 0,
          .is_signal = (gin->op & ring::gin_op::kSignalInc) != 0,
          .connection = static_cast<Word>(gin->destination_handle),
          .space = source > 0 ? source - 1 : 0,
          .offset = static_cast<Word>(gin->source_offset),
          .bytes = static_cast<Word>(gin->size_bytes),
          .message = static_cast<Word>(gin->destination_offset)};
}

ring::FifoWords words_of(const RingDescriptor& what, const ring::FifoScheme* /*scheme*/) {
  ring::FifoTrigger trigger{.destination_offset = what.message,
                            .type = static_cast<std::uint8_t>((what.is_put ? ring::fifo_type::kData : 0) |
                                                              (what.is_signal ? ring::fifo_type::kFlag : 0)),
                            .semaphore = static_cast<std::uint16_t>(what.connection)};
  if (what.is_put) {
    trigger.size_bytes = what.bytes;
    trigger.source_offset = what.offset;
    trigger.source_memory = static_cast<std::uint16_t>(what.space);
  }
  const auto words = ring::encode_trigger(trigger);
  MESHBED_CHECK_MSG(words, "a slot's message fits a trigger");
  return *words;
}

RingDescriptor descriptor_of(const ring::FifoWords& words) {
  const ring::FifoTrigger trigger = ring::decode_trigger(words);
  return {.is_put = (trigger.type & ring::fifo_type::kData) != 0,
          .is_signal = (trigger.type & ring::fifo_type::kFlag) != 0,
          .connection = trigger.semaphore,
          .space = trigger.source_memory,
          .offset = trigger.source_offset,
          .bytes = trigger.size_bytes,
          .message = trigger.destination_offset};
}

/// A PUT is a WRITE and a SIGNAL a FETCH_ADD, as in NVSHMEM, DeepEP and NCCL's GDAKI; both at once are a WRITE with
/// immediate data.
ring::WqeWords words_of(const RingDescriptor& what, const ring::IbgdaScheme* /*scheme*/) {
  ring::IbgdaWqe wqe{.queue_pair = what.connection, .remote_address = what.message};
  if (what.is_put) {
    wqe.opcode = what.is_signal ? ring::WqeOpcode::kWriteImmediate : ring::WqeOpcode::kWrite;
    wqe.size_bytes = what.bytes;
    wqe.local_address = what.offset;
    wqe.local_key = what.space;
  } else {
    wqe.opcode = ring::WqeOpcode::kFetchAdd;
    wqe.size_bytes = sizeof(std::uint64_t);
    wqe.add = 1;
  }
  const auto words = ring::encode_wqe(wqe);
  MESHBED_CHECK_MSG(words, "a slot's message fits a WQE");
  return *words;
}

RingDescriptor descriptor_of(const ring::WqeWords& words) {
  const auto wqe = ring::decode_wqe(words);
  MESHBED_CHECK_MSG(wqe, "what was encoded is decoded");
  RingDescriptor what{.is_put = wqe->opcode != ring::WqeOpcode::kFetchAdd,
                      .is_signal = wqe->opcode != ring::WqeOpcode::kWrite,
                      .connection = wqe->queue_pair,
                      .message = static_cast<Word>(wqe->remote_address)};
  if (what.is_put) {
    what.space = wqe->local_key;
    what.offset = static_cast<Word>(wqe->local_address);
    what.bytes = wqe->size_bytes;
  }
  return what;
}

template <typename Scheme>
class QueueOf final : public DescriptorQueue {
  using Index = typename Scheme::Index;
  static constexpr bool kHasDoorbell = std::is_same_v<Scheme, ring::IbgdaScheme>;

 public:
  explicit QueueOf(std::uint32_t depth)
      : depth_(depth),
        words_(depth * std::tuple_size_v<typename Scheme::Item>),
        memory_{.words = words_, .head = &head_, .tail = &tail_},
        producer_(over<ring::ProxyQueueProducer<Scheme>>(memory_)),
        consumer_(over<ring::ProxyQueueConsumer<Scheme>>(memory_)) {}

  bool has_room() const override { return static_cast<Index>(head_ - tail_) < depth_; }
  std::uint64_t push(const RingDescriptor& what) override {
    const auto position = producer_.try_push(words_of(what, static_cast<const Scheme*>(nullptr)));
    MESHBED_CHECK_MSG(position.has_value(), "who pushes has looked for room");
    return *position;
  }
  std::uint64_t reserve() override { return producer_.reserve(); }
  bool is_free(std::uint64_t position) const override { return producer_.is_free(static_cast<Index>(position)); }
  void write(std::uint64_t position, const RingDescriptor& what) override {
    producer_.write(static_cast<Index>(position), words_of(what, static_cast<const Scheme*>(nullptr)));
  }
  std::uint64_t overcommitted() const override {
    const auto reserved = static_cast<Index>(head_ - tail_);
    return reserved > depth_ ? reserved - depth_ : 0;
  }
  void show(std::uint64_t position) override {
    if constexpr (kHasDoorbell) {
      if (position + 1 > shown_end_) shown_end_ = position + 1;
      record_ = ring::doorbell_record(shown_end_);
    } else {
      shown_.insert(static_cast<Index>(position));
    }
  }
  std::uint64_t shown_end() const override { return shown_end_; }

  std::optional<Taken> take() override {
    if (!is_shown(consumer_.next())) return std::nullopt;
    const auto taken = consumer_.take();
    // Of the GIN queue: all places wait for their completion, and what is shown is behind them.
    if (!taken || !*taken) return std::nullopt;
    shown_.erase((*taken)->position);
    return Taken{.position = (*taken)->position, .what = descriptor_of((*taken)->item)};
  }
  void posted(std::uint64_t position) override { consumer_.posted(static_cast<Index>(position)); }
  void completed(std::uint64_t position) override { consumer_.completed(static_cast<Index>(position)); }

 private:
  bool is_shown(Index position) const {
    if constexpr (kHasDoorbell) {
      // The record has 16 bits of the index, and the queue fewer places than they can tell apart.
      const auto ahead = static_cast<std::uint16_t>(ring::producer_of(record_) - static_cast<std::uint16_t>(position));
      return ahead > 0 && ahead <= ring::kWqeRingMost;
    } else {
      return shown_.count(position) > 0;
    }
  }

  template <typename Side>
  static Side over(const ring::ProxyQueueMemory<Scheme>& memory) {
    auto side = Side::over(memory);
    MESHBED_CHECK_MSG(side, "a queue's depth is a power of two");
    return *side;
  }

  Index depth_;
  std::vector<std::uint64_t> words_;
  Index head_ = 0, tail_ = 0;
  std::set<Index> shown_;        // positions that the proxy sees and has not taken
  std::uint64_t shown_end_ = 0;  // of ibgda instead: where they end
  std::uint32_t record_ = 0;     // its doorbell record
  ring::ProxyQueueMemory<Scheme> memory_;
  ring::ProxyQueueProducer<Scheme> producer_;
  ring::ProxyQueueConsumer<Scheme> consumer_;
};

}  // namespace

std::unique_ptr<DescriptorQueue> make_gin_queue(std::uint32_t depth) {
  return std::make_unique<QueueOf<ring::GinScheme>>(depth);
}
std::unique_ptr<DescriptorQueue> make_fifo_queue(std::uint32_t depth) {
  return std::make_unique<QueueOf<ring::FifoScheme>>(depth);
}
std::unique_ptr<DescriptorQueue> make_ibgda_queue(std::uint32_t depth) {
  return std::make_unique<QueueOf<ring::IbgdaScheme>>(depth);
}

}  // namespace meshbed::testbed
