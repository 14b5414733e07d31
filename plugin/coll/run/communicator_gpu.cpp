// Operations in streams and on GPU memory. Service thread, but where it says otherwise.
#include <algorithm>

#include "plugin/coll/run/communicator.h"
#include "plugin/coll/run/gpu.h"

namespace meshbed::coll {
namespace {

/// A part of the caller's GPU memory, and where it stands in the staging memory.
struct Lent {
  cuda::CUcontext context = nullptr;
  char* begin = nullptr;
  std::uint64_t size_bytes = 0, offset = 0;

  bool holds(const void* data, std::uint64_t bytes) const {
    const char* const from = static_cast<const char*>(data);
    return from >= begin && from + bytes <= begin + size_bytes;
  }
  /// Where the byte stands while the operation runs.
  char* at(char* staging, const void* data) const {
    return staging + offset + (static_cast<const char*>(data) - begin);
  }
};

/// That of all of the operation's memory; null: a part is the host's, or another's.
cuda::CUcontext context_of(const std::vector<Lent>& lent, const Operation& operation) {
  const auto behind = [&](const void* data, std::uint64_t bytes) -> cuda::CUcontext {
    for (const Lent& part : lent) {
      if (part.holds(data, bytes)) return part.context;
    }
    return nullptr;
  };
  const cuda::CUcontext context = behind(operation.input, operation.input_bytes);
  const bool one = operation.output_bytes == 0 || behind(operation.output, operation.output_bytes) == context;
  return operation.input_bytes > 0 && one ? context : nullptr;
}

/// Any element's alignment, and whole lines.
constexpr std::uint64_t kLentAlignment = 256;

}  // namespace

/// Several operations on GPU memory: the same on host memory, and the copies before and after.
struct Communicator::Lending {
  std::vector<Operation> operations;
  std::vector<GpuCopy> in, out;
};

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

/// By the caller's thread. nullptr: none of them is in a stream.
Result<std::shared_ptr<StreamOrder>> Communicator::enter_streams(const std::vector<Operation>& operations) {
  const std::vector<cuda::CUstream> streams = streams_of(operations);
  if (streams.empty()) return std::shared_ptr<StreamOrder>();
  auto gpu = need_gpu();
  if (!gpu) return gpu.error();
  return (*gpu)->enter(streams, *gpu);
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
std::shared_ptr<const GpuSumPlace> Communicator::sum_place(Gpu& gpu, const Operation& operation,
                                                           cuda::CUcontext context) {
  if (context == nullptr || !reduces(operation, options_.world)) return nullptr;
  const auto kernels = gpu.sum_kernels(context, operation.type, operation.op);
  if (!kernels) return nullptr;
  connections_->take_staging_from(
      [&gpu, context](std::uint64_t size_bytes) { return gpu.pinned(context, size_bytes); });
  return std::make_shared<const GpuSumPlace>(
      GpuSumPlace{gpu, context, *kernels, static_cast<const char*>(operation.input)});
}

/// No operations: all of their memory is the host's, or the host can follow it.
Result<Communicator::Lending> Communicator::lend(Gpu& gpu, std::span<const Operation> operations) {
  std::vector<std::vector<Lent>> lent(operations.size());
  std::uint64_t size_bytes = 0;
  cuda::CUcontext any = nullptr;
  const auto add = [&](std::size_t index, Lent part) {
    part.offset = size_bytes;
    size_bytes += (part.size_bytes + kLentAlignment - 1) / kLentAlignment * kLentAlignment;
    any = part.context;
    lent[index].push_back(part);
  };
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const Operation& operation = operations[i];
    char* const input = static_cast<char*>(const_cast<void*>(operation.input));
    char* const output = static_cast<char*>(operation.output);
    const auto behind_input = gpu.context_behind(operation.input_bytes > 0 ? input : nullptr);
    if (!behind_input) return behind_input.error();
    const auto behind_output = gpu.context_behind(operation.output_bytes > 0 ? output : nullptr);
    if (!behind_output) return behind_output.error();
    const Lent in{*behind_input, input, operation.input_bytes};
    const Lent out{*behind_output, output, operation.output_bytes};
    // In place, one lies within the other, and has to do so in the staging memory.
    const bool one = in.context != nullptr && out.context != nullptr &&
                     (out.holds(input, in.size_bytes) || in.holds(output, out.size_bytes));
    if (one) {
      add(i, out.holds(input, in.size_bytes) ? out : in);
      continue;
    }
    if (in.context != nullptr) add(i, in);
    if (out.context != nullptr) add(i, out);
  }
  Lending lending;
  if (size_bytes == 0) return lending;
  bool grown = false;
  const auto pinned = gpu.staging(any, size_bytes, &grown);
  if (!pinned) return pinned.error();
  char* const staging = (*pinned)->data();
  if (grown && memory_ != nullptr) memory_->keep(staging, (*pinned)->size_bytes());
  const bool seen_alike = (*pinned)->device_address() == cuda::address_of(staging);
  for (std::size_t i = 0; i < operations.size(); ++i) {
    Operation operation = operations[i];
    if (seen_alike) operation.sums = sum_place(gpu, operation, context_of(lent[i], operation));
    for (const Lent& part : lent[i]) {
      const bool has_input =
          operations[i].input_bytes > 0 && part.holds(operations[i].input, operations[i].input_bytes);
      const bool has_output =
          operations[i].output_bytes > 0 && part.holds(operations[i].output, operations[i].output_bytes);
      if (has_input) {
        char* const place = part.at(staging, operations[i].input);
        lending.in.push_back(
            {part.context, place, static_cast<const char*>(operations[i].input), operations[i].input_bytes});
        operation.input = place;
      }
      if (has_output) {
        char* const place = part.at(staging, operations[i].output);
        lending.out.push_back(
            {part.context, static_cast<char*>(operations[i].output), place, operations[i].output_bytes});
        operation.output = place;
      }
    }
    lending.operations.push_back(operation);
  }
  return lending;
}

Result<void> Communicator::transfer(std::span<const Operation> operations, const Deadline& deadline, Call* last_of) {
  const auto gpu = this->gpu();
  if (gpu == nullptr) return transfer_host(operations, deadline, last_of);
  const auto lending = lend(*gpu, operations);
  if (!lending) return lending.error();
  if (lending->operations.empty()) return transfer_host(operations, deadline, last_of);
  if (!lending->in.empty()) {
    if (auto copied = copy_by_gpu(*gpu, lending->in, deadline); !copied) return copied;
  }
  if (auto moved = transfer_host(lending->operations, deadline, nullptr); !moved) {
    for (const Operation& operation : lending->operations) {
      if (operation.sums != nullptr) gpu->settle(operation.sums->context);  // the memory is the caller's again
    }
    return moved;
  }
  if (!lending->out.empty()) {
    if (auto copied = copy_by_gpu(*gpu, lending->out, deadline); !copied) return copied;
  }
  if (last_of != nullptr) last_of->finish(ok());
  return ok();
}

}  // namespace meshbed::coll
