#pragma once
// What the megakernel on a GPU (megakernel.cu) is given, beside the Kernel that its lanes work on: the same structs on
// both sides of the launch. Standard library and numbers only.
//
// Kernels, by name:
//   meshbed_megakernel          a block is a lane, so that a lane that waits holds a place on an SM; its other threads
//                               help with REDUCE and COPY
//   meshbed_megakernel_threads  a thread is a lane, as in the ancestor's kernel; each does all by itself
//   meshbed_megakernel_in_turn  one thread steps every lane in turn, so that the order of everything is known: for
//                               comparison with the interpreter
// Arguments of each: Kernel, GpuMesh, GpuTurns.

#include "plugin/ring/kernel/kernel.h"
#include "plugin/ring/kernel/mesh_ops.h"

namespace meshbed::ring {

inline constexpr const char* kBlockLanesKernel = "meshbed_megakernel";
inline constexpr const char* kThreadLanesKernel = "meshbed_megakernel_threads";
inline constexpr const char* kInTurnKernel = "meshbed_megakernel_in_turn";

/// What REDUCE adds up. Results are those of plugin/coll's loops, bit for bit.
enum class GpuElement : Word { kInt32, kUint32, kInt64, kUint64, kFloat32, kFloat64 };
enum class GpuReduction : Word { kSum, kProduct, kMax, kMin };

inline constexpr Word kGpuSpacesMost = 8;

/// What the mesh operations of slots work on; `spaces[0]` null and no board: the user's opcodes have no handler.
struct GpuMesh {
  MeshBoard board;
  char* spaces[kGpuSpacesMost] = {};  // the memories that slots name
  const Word* completed = nullptr;    // by connection, from the host: puts that may be overwritten
  std::uint64_t* triggers = nullptr;  // of the FIFO to the host's proxy (proxy_queue.h, FifoScheme)
  std::uint64_t* head = nullptr;      // its places taken; the GPU's alone
  std::uint64_t* tail = nullptr;      // its places given back, from the host
  std::uint64_t depth = 0;            // a power of two
  GpuElement element = GpuElement::kFloat32;
  GpuReduction reduction = GpuReduction::kSum;
};

/// How long lanes step.
struct GpuTurns {
  KernelLane* lanes = nullptr;  // kept from launch to launch; null: each launch begins anew
  Word most = 0;                // turns of each lane; 0: until SHUTDOWN
  bool by_step = false;         // a turn is one step of the machine, between two of which anything may happen
};

}  // namespace meshbed::ring
