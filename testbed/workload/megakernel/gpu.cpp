#include "testbed/workload/megakernel/gpu.h"

#include <fmt/format.h>

#include <algorithm>

#include "plugin/ring/abi/slot.h"
#include "testbed/workload/megakernel/descriptor_queue.h"

namespace meshbed::testbed {

using ring::Word;

namespace {

/// A block's threads, which share a REDUCE: one warp.
constexpr Word kThreads = 32;
/// More than the count of any WAIT or FENCE of a run.
constexpr Word kAllCame = 0x7fff'ffff;
constexpr Word kNotPublished = 0xffff'ffff;

Word* arrivals_of(const ring::GpuRing& ring, Word connection) {
  return ring.control().data() + kRingLayout.observables + ring.shape().board.arrivals_of(connection);
}

}  // namespace

std::optional<ring::GpuElement> gpu_element_of(coll::DataType type) {
  switch (type) {
    case coll::DataType::kInt32:
      return ring::GpuElement::kInt32;
    case coll::DataType::kUint32:
      return ring::GpuElement::kUint32;
    case coll::DataType::kInt64:
      return ring::GpuElement::kInt64;
    case coll::DataType::kUint64:
      return ring::GpuElement::kUint64;
    case coll::DataType::kFloat32:
      return ring::GpuElement::kFloat32;
    case coll::DataType::kFloat64:
      return ring::GpuElement::kFloat64;
    default:
      return std::nullopt;
  }
}

std::optional<ring::GpuReduction> gpu_reduction_of(coll::ReduceOp op) {
  switch (op) {
    case coll::ReduceOp::kSum:
      return ring::GpuReduction::kSum;
    case coll::ReduceOp::kProduct:
      return ring::GpuReduction::kProduct;
    case coll::ReduceOp::kMax:
      return ring::GpuReduction::kMax;
    case coll::ReduceOp::kMin:
      return ring::GpuReduction::kMin;
    case coll::ReduceOp::kAverage:
      break;
  }
  return std::nullopt;
}

Result<std::unique_ptr<RingGpu>> RingGpu::make(const Setting& setting) {
  const auto driver = cuda::Driver::open();
  if (!driver) {
    Error error = driver.error();
    error.text = "memory = \"gpu\": " + error.text;
    return error;
  }
  const auto context = driver->retain_primary(setting.device % driver->devices());
  if (!context) return context.error();
  std::unique_ptr<RingGpu> made(new RingGpu(*driver, setting, *context));
  if (const auto& outcome = made->current_.outcome(); !outcome) return outcome.error();
  if (const Result<void> done = made->prepare(); !done) return done.error();
  return made;
}

Result<void> RingGpu::prepare() {
  for (cuda::Stream* stream : {&host_stream_, &proxy_stream_}) {
    auto made = cuda::Stream::create(driver_);
    if (!made) return made.error();
    *stream = std::move(*made);
  }
  ring::GpuRingShape shape{.slots = setting_.slots,
                           .lanes = setting_.lanes,
                           .observables = setting_.program.board().observables(),
                           .threads = kThreads,
                           .board = setting_.program.board(),
                           .depth = kFifoDepthDefault,
                           .element = setting_.element,
                           .reduction = setting_.reduction};
  static_assert(coll::kSpaces <= ring::kGpuSpacesMost);
  for (std::size_t space = 0; space < spaces_.size(); ++space) {
    if (setting_.images[space].empty()) continue;
    auto memory = cuda::DeviceMemory::allocate(driver_, setting_.images[space].size());
    if (!memory) return memory.error();
    spaces_[space] = std::move(*memory);
    shape.spaces[space] = spaces_[space].data();
  }
  auto ring = ring::GpuRing::create(driver_, shape);
  if (!ring) return ring.error();
  ring_ = std::move(*ring);
  auto triggers = ring::ProxyQueueConsumer<ring::FifoScheme>::over(ring_->triggers());
  if (!triggers) return triggers.error();
  triggers_ = std::move(*triggers);
  arrived_.resize(setting_.program.receives.size());
  published_.resize(setting_.slots, kNotPublished);
  return ok();
}

std::unique_ptr<cuda::Current> RingGpu::enter() const { return std::make_unique<cuda::Current>(driver_, context_); }

Result<void> RingGpu::copy(const cuda::Stream& stream, coll::Area area, std::uint64_t size_bytes, bool to_gpu) {
  if (size_bytes == 0) return ok();
  const auto space = static_cast<std::size_t>(area.space);
  std::byte* const image = setting_.images[space].data() + area.offset_bytes;
  char* const memory = spaces_[space].data() + area.offset_bytes;
  auto done = to_gpu ? stream.copy(memory, image, size_bytes) : stream.copy(image, memory, size_bytes);
  return done ? stream.synchronize() : done;
}

Result<void> RingGpu::give(coll::Space space) {
  return copy(host_stream_, {.space = space}, setting_.images[static_cast<std::size_t>(space)].size(), true);
}
Result<void> RingGpu::take(coll::Space space) {
  return copy(host_stream_, {.space = space}, setting_.images[static_cast<std::size_t>(space)].size(), false);
}

void RingGpu::note(RingEventKind kind, Word slot, Word opcode) {
  setting_.trace.add(
      {.at_ps = setting_.host.now_ps(), .rank = setting_.host.rank(), .slot = slot, .opcode = opcode, .kind = kind});
}

Result<void> RingGpu::publish(Word slot, const ring::MeshSlot& what) {
  const Result<void> done =
      ring_->publish({.slot = slot, .opcode = what.opcode, .args = {std::begin(what.args), std::end(what.args)}});
  if (!done) return done;
  published_[slot] = what.opcode;
  note(RingEventKind::kPublish, slot, what.opcode);
  return ok();
}

Word RingGpu::see_done() {
  Word seen = 0;
  for (Word slot = 0; slot < published_.size(); ++slot) {
    if (published_[slot] == kNotPublished || ring_->status_of(slot) != ring::status::kDone) continue;
    note(RingEventKind::kDone, slot, published_[slot]);
    published_[slot] = kNotPublished;
    ++seen;
  }
  return seen;
}

std::string RingGpu::waiting_text() const {
  for (Word slot = 0; slot < published_.size(); ++slot) {
    if (published_[slot] == kNotPublished) continue;
    return fmt::format("slot {} (opcode {}) is {}", slot, published_[slot], ring::status_name(ring_->status_of(slot)));
  }
  return "every slot is DONE";
}

ring::RuntimeCounters RingGpu::counters() const {
  const auto bytes_of = [](std::span<Word> words) {
    return ring::Bytes(reinterpret_cast<const std::uint8_t*>(words.data()), words.size_bytes());
  };
  const auto now =
      ring::decode_telemetry(bytes_of(ring_->control()), bytes_of(ring_->slots()), kRingLayout, ring::Mode::kSafe);
  return now ? ring::counters_of(*now) : ring::RuntimeCounters{};
}

Result<void> RingGpu::end(bool abandoned) {
  if (auto sent = ring_->shut_down(); !sent) return sent;
  for (;;) {
    const auto ended = ring_->has_ended();
    if (!ended) return ended.error();
    if (*ended) return ok();
    if (abandoned) {
      const ring::MeshBoard& board = ring_->shape().board;
      for (Word connection = 0; connection < board.connections; ++connection) {
        ring::AtomicWords::release(ring_->completed(connection), kAllCame);
        ring::AtomicWords::release(arrivals_of(*ring_, connection), kAllCame);
      }
      for (Word id = 0; id < board.ids; ++id) {
        ring::AtomicWords::release(ring_->control().data() + kRingLayout.observables + board.done_of(id), kAllCame);
      }
      for (auto taken = triggers_->take(); taken && *taken; taken = triggers_->take()) {
        triggers_->posted((*taken)->position);
      }
    }
    setting_.host.idle("megakernel: the kernel's end");
  }
}

Result<bool> RingGpu::pass() {
  if (failure_) return *failure_;
  bool moved = false;
  for (;;) {
    const auto taken = triggers_->take();
    if (!taken) return taken.error();
    if (!*taken) return moved;
    moved = true;
    const ring::FifoTrigger what = ring::decode_trigger((*taken)->item);
    const Word connection = what.semaphore;
    if (what.type == ring::fifo_type::kFlag) {
      proxy_->commit(connection, what.destination_offset);
    } else {
      const coll::Area area{.space = static_cast<coll::Space>(what.source_memory), .offset_bytes = what.source_offset};
      if (auto done = copy(proxy_stream_, area, what.size_bytes, false); !done) return done.error();
      proxy_->put(connection, {.data = setting_.images[what.source_memory].data() + what.source_offset,
                               .size_bytes = what.size_bytes,
                               .space = what.source_memory});
    }
    triggers_->posted((*taken)->position);
  }
}

void RingGpu::see_completion(Word connection) {
  ring::AtomicWords::release(ring_->completed(connection), proxy_->completed(connection));
}

// Credits take no time here: check_megakernel_gpu() refuses a scenario that sets one.
void RingGpu::at(Picoseconds, std::function<void()> act) { act(); }

void RingGpu::arrived(Word connection) {
  const std::vector<coll::Landing>& landings = setting_.program.receives[connection].landings;
  const coll::Landing& landing = landings[arrived_[connection]++ % landings.size()];
  if (auto done = copy(proxy_stream_, landing.area, landing.size_bytes, true); !done) {
    failure_ = done.error();
    return;
  }
  // After the copy: a lane that sees the flag must see the data.
  ring::AtomicWords::release(arrivals_of(*ring_, connection), static_cast<Word>(arrived_[connection]));
}

}  // namespace meshbed::testbed
