// The effects of a kernel's operations on the proxy and on memory.

#include <cstring>
#include <utility>

#include "testbed/workload/megakernel/rank.h"
#include "testbed/workload/megakernel/times.h"

namespace meshbed::testbed {

using ring::Word;
namespace arg = ring::mesh_arg;

namespace {

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

char* RingKernel::bytes_at(Word space, Word offset) {
  return reinterpret_cast<char*>(setting_.spaces[space].data()) + offset;
}

ring::End RingKernel::User::operator()(const ring::Operation& op) const {
  if (op.opcode != kTaskOpcode) return kernel->mesh_(op);
  const auto end = static_cast<ring::End>(op.args[0]);
  return kernel->tasks_[op.slot]++ < op.args[2] ? end : ring::End::kDone;
}

bool RingKernel::Port::put(Word connection, Word space, Word offset, Word bytes, Word message) {
  RingProxy* const proxy = kernel->proxy_;
  if (!kernel->has_descriptors()) {
    proxy->put(connection, {.data = kernel->bytes_at(space, offset), .size_bytes = bytes, .space = space});
    return true;
  }
  const RingDescriptor what{
      .connection = connection, .space = space, .offset = offset, .bytes = bytes, .message = message};
  if (kernel->setting_.settings.fuses) {
    proxy->hold(what);
    return true;
  }
  describe(what, kernel->setting_.host.now_ps() + doorbell_of(kernel->setting_.settings));
  return true;
}

void RingKernel::Port::describe(const RingDescriptor& what, Picoseconds seen_ps) const {
  RingProxy* const proxy = kernel->proxy_;
  std::uint64_t position = 0;
  if (kernel->place_) {
    position = *std::exchange(kernel->place_, std::nullopt);
    proxy->describe_at(position, what);
  } else {
    position = proxy->describe(what);
  }
  if (proxy->has_doorbell()) {
    if (!proxy->rings_doorbell(what, position)) return;
    kernel->rang_ = true;
  }
  kernel->at(seen_ps, [proxy, connection = what.connection, position] { proxy->show(connection, position); });
}

void RingKernel::Port::signal(Word connection, Word puts) {
  RingProxy* const proxy = kernel->proxy_;
  const Picoseconds now_ps = kernel->setting_.host.now_ps();
  const Picoseconds seen_ps = now_ps + doorbell_of(kernel->setting_.settings);
  if (kernel->setting_.parts != nullptr) {
    kernel->setting_.parts->add(kernel->setting_.host.rank(), RingPart::kQueue, now_ps, seen_ps);
  }
  if (kernel->has_descriptors()) {
    ++kernel->signals_[connection];
    RingDescriptor what{.is_put = false, .is_signal = true, .connection = connection, .message = puts};
    if (kernel->setting_.settings.fuses) {
      what = proxy->held(connection);
      what.is_signal = true;
    }
    describe(what, seen_ps);
    return;
  }
  kernel->at(seen_ps, [proxy, connection, puts] { proxy->commit(connection, puts); });
}

Word RingKernel::Port::completed(Word connection) const { return kernel->proxy_->completed(connection); }

void RingKernel::Port::reduce(const Word* args) {
  const Word spaces = args[arg::kSpaces];
  const auto space = [spaces](unsigned index) { return spaces >> 8U * (index + 1) & 0xffU; };
  reduce_function_of(kernel->kernels_, spaces & arg::kFormMask)(
      kernel->bytes_at(space(2), args[arg::kThird]), kernel->bytes_at(space(0), args[arg::kFirst]),
      kernel->bytes_at(space(1), args[arg::kSecond]), args[arg::kCount],
      static_cast<std::uint32_t>(kernel->setting_.host.ranks()));
}

void RingKernel::Port::copy(const Word* args) {
  const Word spaces = args[arg::kSpaces];
  std::memcpy(kernel->bytes_at(spaces >> 24U, args[arg::kThird]),
              kernel->bytes_at(spaces >> 8U & 0xffU, args[arg::kFirst]), args[arg::kCount]);
}

}  // namespace meshbed::testbed
