// The megakernel for a GPU: the machine of plugin/ring/kernel on DeviceWords. See megakernel.h.
//
// megakernel.ptx is what nvcc makes of this file, kept so that no build needs the toolkit. cmake/gpu_kernel.cmake has the
// command, tests/cuda/kept_ptx_test.cpp compares, and the target keep_gpu_kernels replaces the kept file.

#include "plugin/ring/gpu/device_words.cuh"
#include "plugin/ring/gpu/megakernel.h"
#include "plugin/ring/kernel/step.h"
#include "plugin/ring/queue/fifo_layout.h"

// Not in an anonymous namespace, whose name in the PTX would have a hash of this file's path in it.
namespace meshbed::ring::gpu {

// Functions that are called rather than inlined: what is called is there once, and the text a quarter as long.

/// Puts a trigger into the FIFO; false: there is no room. The steps of ProxyQueueProducer.
__device__ __noinline__ bool try_push(const GpuMesh& mesh, const FifoTrigger& what) {
  const meshbed_fifo fifo{mesh.triggers, mesh.head, mesh.tail, mesh.depth};
  return meshbed_fifo_try_push(fifo, fifo_first_word(what), fifo_second_word(what), nullptr);
}

template <typename T>
__device__ T combined(GpuReduction reduction, T arrived, T own) {
  switch (reduction) {
    case GpuReduction::kSum:
      return arrived + own;
    case GpuReduction::kProduct:
      return arrived * own;
    // Of a number and a NaN the number, of equals our own.
    case GpuReduction::kMax:
      return own >= arrived || arrived != arrived ? own : arrived;
    case GpuReduction::kMin:
      return own <= arrived || arrived != arrived ? own : arrived;
  }
  return own;
}

template <typename T>
__device__ void reduce_part(const GpuMesh& mesh, const Word* args, Word thread, Word threads) {
  const Word spaces = args[mesh_arg::kSpaces];
  // Plain loads: bytes that were written while this kernel ran were written before the flag that the lane has acquired.
  const auto* const arrived = reinterpret_cast<const T*>(mesh.spaces[spaces >> 8U & 0xffU] + args[mesh_arg::kFirst]);
  const auto* const own = reinterpret_cast<const T*>(mesh.spaces[spaces >> 16U & 0xffU] + args[mesh_arg::kSecond]);
  auto* const result = reinterpret_cast<T*>(mesh.spaces[spaces >> 24U] + args[mesh_arg::kThird]);
  for (Word index = thread; index < args[mesh_arg::kCount]; index += threads) {
    result[index] = combined<T>(mesh.reduction, arrived[index], own[index]);
  }
}

/// A thread's share of a REDUCE.
__device__ void reduce_share(const GpuMesh& mesh, const Word* args, Word thread, Word threads) {
  switch (mesh.element) {
    case GpuElement::kInt32:
    case GpuElement::kUint32:
      // Sums and products are the same bits; those of signed numbers must not overflow in C++.
      if (mesh.element == GpuElement::kUint32 || mesh.reduction < GpuReduction::kMax) {
        return reduce_part<std::uint32_t>(mesh, args, thread, threads);
      }
      return reduce_part<std::int32_t>(mesh, args, thread, threads);
    case GpuElement::kInt64:
    case GpuElement::kUint64:
      if (mesh.element == GpuElement::kUint64 || mesh.reduction < GpuReduction::kMax) {
        return reduce_part<std::uint64_t>(mesh, args, thread, threads);
      }
      return reduce_part<std::int64_t>(mesh, args, thread, threads);
    case GpuElement::kFloat32:
      return reduce_part<float>(mesh, args, thread, threads);
    case GpuElement::kFloat64:
      return reduce_part<double>(mesh, args, thread, threads);
  }
}

/// A thread's share of a COPY.
__device__ void copy_share(const GpuMesh& mesh, const Word* args, Word thread, Word threads) {
  const Word spaces = args[mesh_arg::kSpaces];
  const char* const from = mesh.spaces[spaces >> 8U & 0xffU] + args[mesh_arg::kFirst];
  char* const to = mesh.spaces[spaces >> 24U] + args[mesh_arg::kThird];
  const Word bytes = args[mesh_arg::kCount];
  constexpr Word kUnit = sizeof(std::uint32_t);
  const bool whole = (reinterpret_cast<std::uint64_t>(from) | reinterpret_cast<std::uint64_t>(to)) % kUnit == 0;
  const Word units = whole ? bytes / kUnit : 0;
  for (Word index = thread; index < units; index += threads) {
    reinterpret_cast<std::uint32_t*>(to)[index] = reinterpret_cast<const std::uint32_t*>(from)[index];
  }
  for (Word index = units * kUnit + thread; index < bytes; index += threads) to[index] = from[index];
}

/// Work of all threads of a block; the first one chooses it, the others wait for it.
struct Together {
  Word opcode = 0;  // 0: that was all
  Word args[mesh_arg::kWords];
};

__device__ __noinline__ void share(const GpuMesh& mesh, const Together& task, Word thread, Word threads) {
  if (task.opcode == opcode::kReduce) reduce_share(mesh, task.args, thread, threads);
  if (task.opcode == opcode::kCopy) copy_share(mesh, task.args, thread, threads);
}

/// Not of all lanes of a warp at the same place: the first thread comes from its slot, the others from their loop.
__device__ void meet() { asm volatile("barrier.sync 0;" ::: "memory"); }

/// The machine's port: the bytes and the proxy.
struct Port {
  const GpuMesh& mesh;
  Together* together = nullptr;  // null: this thread is alone
  Word threads = 1;

  __device__ bool put(Word connection, Word space, Word offset, Word bytes, Word message) const {
    return try_push(mesh, {.size_bytes = bytes,
                           .source_offset = offset,
                           .destination_offset = message,
                           .source_memory = static_cast<std::uint16_t>(space),
                           .type = fifo_type::kData,
                           .semaphore = static_cast<std::uint16_t>(connection)});
  }
  /// Waits for room: the proxy always goes on.
  __device__ void signal(Word connection, Word puts) const {
    const FifoTrigger trigger{
        .destination_offset = puts, .type = fifo_type::kFlag, .semaphore = static_cast<std::uint16_t>(connection)};
    while (!try_push(mesh, trigger)) {
    }
  }
  __device__ Word completed(Word connection) const { return meshbed_acquire(mesh.completed + connection); }
  __device__ void reduce(const Word* args) const { move(opcode::kReduce, args); }
  __device__ void copy(const Word* args) const { move(opcode::kCopy, args); }

 private:
  __device__ void move(Word what, const Word* args) const {
    Together alone;
    Together& task = together != nullptr ? *together : alone;
    task.opcode = what;
    for (Word word = 0; word < mesh_arg::kWords; ++word) task.args[word] = args[word];
    if (together != nullptr) meet();
    share(mesh, task, 0, threads);
    if (together != nullptr) meet();
  }
};

/// The user's opcodes of a launch: mesh operations, where it has a board.
class User {
 public:
  __device__ User(const Kernel& kernel, const GpuMesh& mesh, Port& port)
      : has_board_(mesh.board.ids > 0), operations_(kernel, mesh.board, port) {}
  __device__ End operator()(const Operation& op) {
    if (!has_board_) return End::kUnknown;
    if (op.opcode == opcode::kCompute && op.args_count >= mesh_arg::kWords &&
        operations_.is_ready(op.opcode, op.args)) {
      pass(op.args[mesh_arg::kCount]);
    }
    return operations_(op);
  }

 private:
  __device__ static std::uint64_t now_ns() {
    std::uint64_t now = 0;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
  }
  __device__ static void pass(Word duration_ns) {
    const std::uint64_t end = now_ns() + duration_ns;
    while (now_ns() < end) asm volatile("nanosleep.u32 100;");
  }

  bool has_board_;
  MeshOperations<DeviceWords, Port> operations_;
};

__device__ KernelLane lane_of(const GpuTurns& turns, Word index) {
  if (turns.lanes != nullptr) return turns.lanes[index];
  KernelLane lane;
  lane.index = index;
  return lane;
}

/// step.h's turn(), or a single step.
__device__ __noinline__ Step one_turn(const Kernel& kernel, KernelLane& lane, User& user, bool by_step) {
  for (;;) {
    const Step now = step<DeviceWords>(kernel, lane, user);
    if (by_step || now == Step::kNothing || now == Step::kWaiting || now == Step::kEnded || now == Step::kStopped) {
      return now;
    }
  }
}

__device__ void run_lane(const Kernel& kernel, const GpuTurns& turns, Word index, User& user) {
  KernelLane lane = lane_of(turns, index);
  for (Word done = 0; turns.most == 0 || done < turns.most; ++done) {
    if (one_turn(kernel, lane, user, turns.by_step) == Step::kStopped) break;
  }
  if (turns.lanes != nullptr) turns.lanes[index] = lane;
}

extern "C" __global__ void meshbed_megakernel(const __grid_constant__ Kernel kernel,
                                              const __grid_constant__ GpuMesh mesh,
                                              const __grid_constant__ GpuTurns turns) {
  __shared__ Together together;
  const bool alone = blockDim.x == 1;
  if (threadIdx.x == 0) {
    Port port{.mesh = mesh, .together = alone ? nullptr : &together, .threads = blockDim.x};
    User user(kernel, mesh, port);
    run_lane(kernel, turns, blockIdx.x, user);
    if (alone) return;
    together.opcode = 0;
    meet();
    return;
  }
  for (;;) {
    meet();
    if (together.opcode == 0) return;
    share(mesh, together, threadIdx.x, blockDim.x);
    meet();
  }
}

extern "C" __global__ void meshbed_megakernel_threads(const __grid_constant__ Kernel kernel,
                                                      const __grid_constant__ GpuMesh mesh,
                                                      const __grid_constant__ GpuTurns turns) {
  const Word index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index >= kernel.lanes) return;
  Port port{.mesh = mesh};
  User user(kernel, mesh, port);
  run_lane(kernel, turns, index, user);
}

extern "C" __global__ void meshbed_megakernel_in_turn(const __grid_constant__ Kernel kernel,
                                                      const __grid_constant__ GpuMesh mesh,
                                                      const __grid_constant__ GpuTurns turns) {
  Port port{.mesh = mesh};
  User user(kernel, mesh, port);
  for (Word done = 0; turns.most == 0 || done < turns.most; ++done) {
    bool all_stopped = true;
    for (Word index = 0; index < kernel.lanes; ++index) {
      KernelLane lane = turns.lanes[index];
      all_stopped = one_turn(kernel, lane, user, turns.by_step) == Step::kStopped && all_stopped;
      turns.lanes[index] = lane;
    }
    if (all_stopped) return;
  }
}

}  // namespace meshbed::ring::gpu
