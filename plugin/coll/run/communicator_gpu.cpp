// Operations in streams and on GPU memory. On the service thread unless stated otherwise.
#include <algorithm>
#include <functional>
#include <utility>

#include "plugin/base/log.h"
#include "plugin/coll/run/communicator.h"
#include "plugin/coll/run/gpu.h"
#include "plugin/coll/run/loan.h"

namespace meshbed::coll {
namespace {

struct Bytes {
  const char *begin, *end;
  bool empty() const { return begin == end; }
  bool overlaps(const Bytes& other) const { return begin < other.end && other.begin < end; }
};
Bytes input_of(const Operation& operation) {
  const char* const begin = static_cast<const char*>(operation.input);
  return {begin, begin + operation.input_bytes};
}
Bytes output_of(const Operation& operation) {
  const char* const begin = static_cast<const char*>(operation.output);
  return {begin, begin + operation.output_bytes};
}

/// Whether one of them writes what another one reads or writes.
bool depend(const std::vector<Operation>& operations) {
  std::vector<std::pair<Bytes, std::size_t>> written;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    if (const Bytes output = output_of(operations[i]); !output.empty()) written.emplace_back(output, i);
  }
  std::sort(written.begin(), written.end(),
            [](const auto& one, const auto& other) { return std::less<>()(one.first.begin, other.first.begin); });
  for (std::size_t i = 1; i < written.size(); ++i) {
    if (written[i].first.overlaps(written[i - 1].first)) return true;
  }
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const Bytes input = input_of(operations[i]);
    if (input.empty()) continue;
    // Those written end in the order in which they begin.
    auto at = std::partition_point(written.begin(), written.end(),
                                   [&](const auto& output) { return !std::less<>()(input.begin, output.first.end); });
    for (; at != written.end() && at->first.overlaps(input); ++at) {
      if (at->second != i) return true;
    }
  }
  return false;
}

/// What a rank gives to others, while it gets something from them.
bool overwrites_input(const Operation& operation) {
  const bool exchanges = is_all_to_all(operation.collective) || operation.collective == Collective::kSendRecv;
  return exchanges && input_of(operation).overlaps(output_of(operation));
}

}  // namespace

std::shared_ptr<Gpu> Communicator::gpu() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return gpu_;
}

bool Communicator::has_gpu() const { return gpu() != nullptr; }

Result<std::shared_ptr<Gpu>> Communicator::need_gpu() {
  if (auto there = gpu(); there != nullptr) return there;
  auto opened = Gpu::open();
  if (!opened) return opened.error();
  adopt(*opened);
  return *opened;
}

void Communicator::adopt(std::shared_ptr<Gpu> gpu) {
  for (Worker* worker : {service_.get(), progress_.get()}) worker->submit([gpu] { gpu->enter_thread(); });
  const std::lock_guard<std::mutex> lock(mutex_);
  gpu_ = std::move(gpu);
}

std::vector<cuda::CUstream> streams_of(const std::vector<Operation>& operations) {
  std::vector<cuda::CUstream> streams;
  for (const Operation& operation : operations) {
    const auto stream = static_cast<cuda::CUstream>(operation.stream);
    const bool known = std::find(streams.begin(), streams.end(), stream) != streams.end();
    if (operation.in_stream && !known) streams.push_back(stream);
  }
  return streams;
}

/// By the caller's thread.
Result<void> Communicator::prepare_sums(const std::vector<Operation>& operations) {
  const auto gpu = this->gpu();
  for (const Operation& operation : operations) {
    if (gpu == nullptr || !reduces(operation, options_.world)) continue;
    if (auto prepared = gpu->prepare_sums(operation); !prepared) return prepared;
  }
  return ok();
}

/// How the memory of an operation is registered, where its messages are in it; nullptr: they are not.
Result<const GpuAccess*> Communicator::direct_access(Gpu& gpu, const Operation& operation) const {
  const GpuAccess* found = nullptr;
  for (const auto& [data, size_bytes] :
       {std::pair<const void*, std::uint64_t>(operation.input, operation.input_bytes),
        std::pair<const void*, std::uint64_t>(operation.output, operation.output_bytes)}) {
    if (size_bytes == 0) continue;
    const auto access = gpu.access_to(data, gpu_support_);
    // All of it is one GPU's.
    if (!access || *access == nullptr || (found != nullptr && found != *access)) return access ? nullptr : access;
    found = *access;
  }
  return found;
}

/// By the caller's thread. Sets for each operation in a stream whether its messages are in the caller's GPU memory: a
/// rank's own affair, which changes no message. What they copy there, each rank for itself.
Result<std::vector<GpuCopy>> Communicator::choose_direct(Gpu& gpu, std::vector<Operation>* operations) {
  std::vector<GpuCopy> copies;
  // In a group one operation may work with what another one writes: then all of them do so in pinned memory.
  if (gpu_support_ == 0 || refused_direct_ || depend(*operations)) return copies;
  for (Operation& operation : *operations) {
    const bool is_sum = meshbed::reduces(operation.collective);
    if (!operation.in_stream || (is_sum && !reduces(operation, options_.world))) continue;
    // Lines are the processor's.
    if (protocol_of(operation) != Protocol::kSimple) continue;
    const auto access = direct_access(gpu, operation);
    if (!access) return access.error();
    if (*access == nullptr) continue;
    const cuda::CUcontext context = (*access)->context;
    // What the processor reduces is its own.
    if (is_sum && !gpu.sum_kernels(context, operation.type, operation.op)) continue;
    operation.direct = *access;
    if (is_sum) {
      operation.lender = context;
      operation.lent_input = static_cast<const char*>(operation.input);
    }
    operation.lends_input = overwrites_input(operation);
    const std::uint64_t element_bytes = size_of(operation.type);
    for (const LocalCopy& copy : local_copies_of(request_of(operation))) {
      char* const target = static_cast<char*>(operation.output) + copy.output_offset * element_bytes;
      const char* const source = static_cast<const char*>(operation.input) + copy.input_offset * element_bytes;
      if (target == source) continue;
      copies.push_back(
          {context, static_cast<cuda::CUstream>(operation.stream), target, source, copy.count * element_bytes});
    }
  }
  return copies;
}

/// By the caller's thread. nullptr: none of them is in a stream. Those that are work in pinned memory from now on,
/// where theirs is a GPU's and messages are not in it itself.
Result<std::shared_ptr<StreamOrder>> Communicator::enter_streams(std::vector<Operation>* operations) {
  const std::vector<cuda::CUstream> streams = streams_of(*operations);
  if (streams.empty()) return std::shared_ptr<StreamOrder>();
  auto gpu = need_gpu();
  if (!gpu) return gpu.error();
  const auto own_copies = choose_direct(**gpu, operations);
  if (!own_copies) return own_copies.error();
  auto loan = Loan::plan(**gpu, *operations, true);
  if (!loan) return loan.error();
  auto staging = (*gpu)->pinned_for(streams, *loan, false);
  if (!staging) return staging.error();
  loan->add(*own_copies);
  auto order = (*gpu)->enter(streams, *gpu, *loan, std::move(*staging));
  if (!order) return order;
  count_copies(loan->copied_bytes());
  count_direct(*operations, true);
  *operations = std::move(loan->operations());
  return order;
}

/// By the caller's thread: the call ends before it begins. The other ranks wait for it, and get the failure in its
/// turn.
void Communicator::refuse(const std::shared_ptr<Call>& call, const Error& error) {
  const bool is_mistake = error.code == ErrorCode::kInvalidArgument || error.code == ErrorCode::kUnsupported;
  if (!is_mistake) {
    service_->submit([this, call, broken = Error{error.code, error.scope, call->name() + ": " + error.text}] {
      if (!usable()) return;
      begin(*call);
      break_down(broken);
    });
  }
  call->finish(error);
}

Result<void> Communicator::drive(ChannelRuns& channel_runs, const Deadline& deadline) {
  Result<void> result;
  progress_->call([&] {
    result =
        execute(channel_runs, {.store = store_.get(), .timeout_ms = left_of(deadline, options_.operation_timeout_ms)});
    count(channel_runs);
  });
  return result;
}

Result<void> Communicator::await_streams(StreamOrder& order, const Deadline& deadline, const Call& call) {
  while (true) {
    ChannelRuns turn;
    turn.push_back(std::make_unique<StreamTurn>(order, aborted_, has_launched_));
    auto waited = drive(turn, deadline);
    if (!waited || static_cast<const StreamTurn&>(*turn.front()).come()) return waited;
    serve_launched();
    if (auto still = usable(); !still) return still;
    begin(call);
  }
}

Result<void> Communicator::copy_by_gpu(Gpu& gpu, const std::vector<GpuCopy>& copies, const Deadline& deadline) {
  // In the order in which they are named, which no address of a context changes.
  std::vector<std::vector<GpuCopy>> by_context;
  for (const GpuCopy& copy : copies) {
    const auto its = std::find_if(by_context.begin(), by_context.end(), [&](const std::vector<GpuCopy>& known) {
      return known.front().context == copy.context;
    });
    if (its != by_context.end()) {
      its->push_back(copy);
    } else {
      by_context.push_back({copy});
    }
  }
  ChannelRuns runs;
  for (auto& its : by_context) runs.push_back(std::make_unique<CopyRun>(gpu, std::move(its)));
  auto copied = drive(runs, deadline);
  if (!copied) {
    for (const auto& run : runs) static_cast<const CopyRun&>(*run).settle();
  }
  return copied;
}

/// Where both of its buffers are one GPU's and that GPU reduces; nullptr elsewhere. Slices arrive in pinned memory
/// then.
std::shared_ptr<const GpuSumPlace> Communicator::sum_place(Gpu& gpu, const Operation& operation) {
  const cuda::CUcontext context = operation.lender;
  if (context == nullptr || !reduces(operation, options_.world)) return nullptr;
  const auto kernels = gpu.sum_kernels(context, operation.type, operation.op);
  if (!kernels) return nullptr;
  connections_->take_staging_from(
      [&gpu, context](std::uint64_t size_bytes) { return gpu.pinned(context, size_bytes); });
  return std::make_shared<const GpuSumPlace>(GpuSumPlace{gpu, context, *kernels, operation.lent_input});
}

/// Stays registered for as long as the communicator lives, since pinned memory is never given back to CUDA.
void Communicator::keep_staging(const cuda::PinnedMemory* staging) {
  if (memory_ == nullptr || staging == nullptr) return;
  auto& kept = kept_staging_[staging->data()];
  if (kept == staging) return;
  if (kept != nullptr) memory_->drop(staging->data());  // its context has gone, and with it what was there
  memory_->keep(staging->data(), staging->size_bytes());
  kept = staging;
}

void Communicator::count_copies(std::uint64_t copied_bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  counters_.copied_bytes += copied_bytes;
}

/// Or that they are so no longer.
void Communicator::count_direct(std::span<const Operation> operations, bool are_direct) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const Operation& operation : operations) {
    if (operation.direct == nullptr || operation.lends_input) continue;
    are_direct ? ++counters_.gpu_direct_calls : --counters_.gpu_direct_calls;
  }
}

/// To operations in no stream.
Result<void> Communicator::lend(Gpu& gpu, Loan* loan) {
  const auto pinned = gpu.staging(loan->context(), loan->size_bytes());
  if (!pinned) return pinned.error();
  keep_staging((*pinned)->memory());
  loan->take(**pinned);
  return ok();
}

Result<void> Communicator::transfer(std::span<const Operation> operations, const Deadline& deadline, Call* last_of) {
  auto moved = transfer_once(operations, deadline, last_of);
  const auto refusal = memory_ != nullptr ? memory_->take_refusal() : std::nullopt;
  if (!refusal) return moved;
  // No rank has sent or received anything of it: as an operation in no stream it goes the other way, with the same
  // messages.
  MESHBED_WARN("rank %d: %s: from now on messages in GPU memory are copied, as with MESHBED_GPU_DIRECT=0",
               options_.rank, refusal->text.c_str());
  refused_direct_ = true;
  count_direct(operations, false);
  std::vector<Operation> copied(operations.begin(), operations.end());
  for (Operation& operation : copied) {
    if (operation.direct == nullptr) continue;
    operation.direct = nullptr;
    operation.in_stream = false;
  }
  return transfer_once(copied, deadline, last_of);
}

Result<void> Communicator::transfer_once(std::span<const Operation> operations, const Deadline& deadline,
                                         Call* last_of) {
  const auto gpu = this->gpu();
  if (gpu == nullptr) return transfer_host(operations, deadline, last_of);
  auto loan = Loan::plan(*gpu, operations, false);
  if (!loan) return loan.error();
  if (!loan->is_empty()) {
    if (auto lent = lend(*gpu, &*loan); !lent) return lent;
  }
  if (!loan->in().empty()) {
    if (auto copied = copy_by_gpu(*gpu, loan->in(), deadline); !copied) return copied;
  }
  for (Operation& operation : loan->operations()) operation.sums = sum_place(*gpu, operation);
  const bool ends_here = loan->out().empty();
  if (auto moved = transfer_host(loan->operations(), deadline, ends_here ? last_of : nullptr); !moved) {
    for (const Operation& operation : loan->operations()) {
      if (operation.sums != nullptr) gpu->settle(operation.sums->context);  // the memory is the caller's again
    }
    return moved;
  }
  if (ends_here) return ok();
  if (auto copied = copy_by_gpu(*gpu, loan->out(), deadline); !copied) return copied;
  if (last_of != nullptr) last_of->finish(ok());
  return ok();
}

}  // namespace meshbed::coll
