#pragma once
// The part of CUDA 13.0's binary interface that the simulator implements, declared for ourselves: what a program that
// was compiled with cuda.h or cuda_runtime.h passes. tests/cuda compares it with NVIDIA's headers where they are
// installed. Names are CUDA's, so that cuda.h's documentation is this file's as well.

#include <cstddef>
#include <cstdint>

#include "sim/cuda/meshbed_cuda.h"

namespace meshbed::sim::cuda {

struct Context;
struct Stream;
struct Event;
struct Module;
struct Kernel;
struct Graph;
struct GraphExec;
struct GraphNode;
struct Pool;
struct FatBinary;
struct Array;
struct MipmappedArray;
struct Link;
struct UserObject;

using CUresult = int;  // errors.def; cudaError_t has the same values where both have one
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUmemGenericAllocationHandle = unsigned long long;
using CUhostFn = void (*)(void* data);
using CUstreamCallback = void (*)(Stream* stream, CUresult status, void* data);

enum : CUresult {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kInvalidConfiguration = 9,  // of the runtime alone
  kInvalidMemcpyDirection = 21,
  kMissingConfiguration = 52,
  kInvalidDeviceFunction = 98,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidPtx = 218,
  kInvalidContext = 201,
  kFileNotFound = 301,
  kInvalidHandle = 400,
  kIllegalState = 401,
  kInvalidSymbol = 13,  // of the runtime alone
  kNoKernelImage = 209,
  kPeerAccessUnsupported = 217,
  kOperatingSystem = 304,
  kUnsupportedPtx = 222,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kLaunchOutOfResources = 701,
  kLaunchTimeout = 702,
  kAssert = 710,
  kHardwareStackError = 714,
  kMisalignedAddress = 716,
  kLaunchFailed = 719,
  kHostMemoryAlreadyRegistered = 712,
  kHostMemoryNotRegistered = 713,
  kContextIsDestroyed = 709,
  kCooperativeLaunchTooLarge = 720,
  kNotPermitted = 800,
  kNotSupported = 801,
  kStreamCaptureUnsupported = 900,
  kStreamCaptureInvalidated = 901,
  kStreamCaptureUnmatched = 903,
  kStreamCaptureUnjoined = 904,
  kStreamCaptureImplicit = 906,
  kStreamCaptureWrongThread = 908,
  kCapturedEvent = 907,
  kGraphExecUpdateFailure = 910,
  kInvalidClusterSize = 912,
};

inline constexpr int kCudaVersion = 13000;

inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventBlockingSync = 1, kEventDisableTiming = 2, kEventInterprocess = 4;
inline constexpr unsigned kMemoryHost = 1, kMemoryDevice = 2, kMemoryArray = 3, kMemoryUnified = 4;
inline constexpr int kPriorityLowest = 0, kPriorityHighest = -5;

struct CUuuid {
  char bytes[16];
};

/// What one process gives out and another one opens: cuda.h's CUipcMemHandle and CUipcEventHandle.
struct CUipcHandle {
  char bytes[64];
};

struct CUDA_MEMCPY2D {
  std::size_t source_x_bytes, source_y;
  unsigned source_kind;
  const void* source_host;
  CUdeviceptr source_device;
  void* source_array;
  std::size_t source_pitch;
  std::size_t target_x_bytes, target_y;
  unsigned target_kind;
  void* target_host;
  CUdeviceptr target_device;
  void* target_array;
  std::size_t target_pitch;
  std::size_t width_bytes, height;
};

struct CUDA_MEMCPY3D {
  struct Side {
    std::size_t x_bytes, y, z, level;
    unsigned kind;
    const void* host;
    CUdeviceptr device;
    void* array;
    void* reserved;
    std::size_t pitch, height;
  };
  Side source, target;
  std::size_t width_bytes, height, depth;
};

struct CUDA_ARRAY_DESCRIPTOR {
  std::size_t width, height;
  int format;  // of one channel: cuda.h's CUarray_format
  unsigned channels;
};
struct CUDA_ARRAY3D_DESCRIPTOR {
  std::size_t width, height, depth;
  int format;
  unsigned channels, flags;
};
struct CUDA_RESOURCE_DESC {
  int type;  // as cudaResourceDesc's
  union {
    Array* array;
    MipmappedArray* mipmap;
    struct {
      CUdeviceptr address;
      int format;
      unsigned channels;
      std::size_t bytes;
    } linear;
    struct {
      CUdeviceptr address;
      int format;
      unsigned channels;
      std::size_t width, height, pitch;
    } pitch;
    int reserved[32];
  } of;
  unsigned flags;
};
struct CUDA_TEXTURE_DESC {
  int address_mode[3], filter;
  unsigned flags, anisotropy_max;
  int mipmap_filter;
  float mipmap_bias, mipmap_least, mipmap_most;
  float border[4];
  int reserved[12];
};

struct LaunchAttribute {
  int id;
  char pad[4];
  union {
    int integer;
    unsigned dimension[3];
    struct {
      Event* event;
      int flags;
    } completion;
    char bytes[64];
  } value;
};
enum : int {
  kAttributeIgnore = 0,
  kAttributeAccessPolicy = 1,
  kAttributeCooperative = 2,
  kAttributeSynchronization = 3,
  kAttributeClusterDimension = 4,
  kAttributeClusterPolicy = 5,
  kAttributeProgrammaticSerialization = 6,
  kAttributePriority = 8,
  kAttributeDomainMap = 9,
  kAttributeDomain = 10,
  kAttributePreferredCluster = 11,
  kAttributeCompletionEvent = 12,
  kAttributeCarveout = 14,
  kAttributeNvlinkScheduling = 16,
};

struct CUlaunchConfig {
  unsigned grid[3], block[3];
  unsigned shared_bytes;
  Stream* stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};

struct CUctxCreateParams {
  void* affinities;
  int affinity_count;
  void* graphics;
};
struct CUmemLocation {
  int type;  // 1: a device
  int id;
};
struct CUmemAllocationProp {
  int type;  // 1: pinned
  int handle_types;
  CUmemLocation location;
  void* windows;
  unsigned char flags[8];
};
struct CUmemAccessDesc {
  CUmemLocation location;
  int flags;  // 0 none, 1 read, 3 read and write
};
struct CUmemPoolProps {
  int type;
  int handle_types;
  CUmemLocation location;
  void* windows;
  std::size_t most_bytes;
  unsigned short usage;
  unsigned char reserved[54];
};

struct CUDA_KERNEL_NODE_PARAMS_v1 {
  Kernel* function;
  unsigned grid[3], block[3];
  unsigned shared_bytes;
  void** arguments;
  void** extra;
};
struct CUDA_KERNEL_NODE_PARAMS_v2 {
  CUDA_KERNEL_NODE_PARAMS_v1 launch;
  Kernel* kernel;  // where there is no function
  Context* context;
};
struct CUstreamBatchMemOpParams {
  int operation;
  unsigned barrier_flags;  // of a barrier or a flush alone
  CUdeviceptr address;
  unsigned long long value;  // the lower half, of 32 bits
  unsigned flags;
  CUdeviceptr alias;
  unsigned long long reserved;
};
struct CUgraphEdgeData {
  unsigned char from_port, to_port, type, reserved[5];
};
struct CUDA_GRAPH_INSTANTIATE_PARAMS {
  unsigned long long flags;
  Stream* upload_stream;
  GraphNode* failed;
  int result;  // 0: done; 1: something else; 2: the structure is none; 3: what a node does is not possible
};

// --- the runtime's own, or both interfaces' ---
struct dim3 {
  unsigned x, y, z;
};
struct cudaLaunchConfig {
  dim3 grid, block;
  std::size_t shared_bytes;
  Stream* stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};
struct cudaFuncAttributes {
  std::size_t shared_bytes, const_bytes, local_bytes;
  int threads_max, registers, ptx_version, binary_version, cache_mode, dynamic_shared_bytes_max, carveout;
  int cluster_must_be_set, cluster[3], cluster_policy, non_portable_cluster;
  int reserved[16];
};
struct cudaExtent {
  std::size_t width, height, depth;
};
struct cudaChannelFormatDesc {
  int x, y, z, w;  // bits of each channel
  int kind;        // 0 signed, 1 unsigned, 2 float
};
struct cudaResourceDesc {
  int type;  // 0 an array, 1 a mipmapped one, 2 linear memory, 3 rows with a pitch
  union {
    Array* array;
    MipmappedArray* mipmap;
    struct {
      void* address;
      cudaChannelFormatDesc format;
      std::size_t bytes;
    } linear;
    struct {
      void* address;
      cudaChannelFormatDesc format;
      std::size_t width, height, pitch;
    } pitch;
    int reserved[32];
  } of;
  unsigned flags;
};
struct cudaTextureDesc {
  int address_mode[3] = {};  // 0 wrap, 1 clamp, 2 mirror, 3 border
  int filter = 0;            // 0 the nearest texel, 1 linear
  int read_mode = 0;         // 0 as they are, 1 as normalized floats
  int srgb = 0;
  float border[4] = {};
  int normalized_coordinates = 0;
  unsigned anisotropy_max = 0;
  int mipmap_filter = 0;
  float mipmap_bias = 0, mipmap_least = 0, mipmap_most = 0;
  int no_trilinear = 0, seamless_cubemap = 0;
};
struct cudaPos {
  std::size_t x, y, z;
};
struct cudaPitchedPtr {
  void* pointer;
  std::size_t pitch, width, height;
};
struct cudaMemcpy3DParms {
  void* source_array;
  cudaPos source_position;
  cudaPitchedPtr source;
  void* target_array;
  cudaPos target_position;
  cudaPitchedPtr target;
  cudaExtent extent;
  int kind;
};
struct cudaKernelNodeParams {
  void* function;
  dim3 grid, block;
  unsigned shared_bytes;
  void** arguments;
  void** extra;
};
struct cudaMemsetParams {
  void* target;
  std::size_t pitch;
  unsigned value, element_bytes;
  std::size_t width, height;
};
struct cudaMemAllocNodeParams {
  CUmemPoolProps pool;
  const CUmemAccessDesc* access;
  std::size_t access_count;
  std::size_t bytes;
  void* address;
};
struct cudaHostNodeParams {
  CUhostFn function;
  void* data;
};
/// Of a node of any kind (cuGraphAddNode), by cuda.h's CUgraphNodeType.
struct CUgraphNodeParams {
  int type;
  int reserved[3];
  union {
    long long words[29];
    CUDA_KERNEL_NODE_PARAMS_v2 kernel;
    struct {
      int flags, reserved;
      Context* context;
      CUDA_MEMCPY3D parameters;
    } copy;
    struct {
      cudaMemsetParams parameters;
      Context* context;
    } fill;
    cudaHostNodeParams host;
    struct {
      Graph* graph;
      int ownership;  // 0: the node has a copy; 1: it takes the graph
    } child;
    Event* event;
    cudaMemAllocNodeParams memory;
    CUdeviceptr freed;
  } of;
  long long last_reserved;
};
struct cudaGraphExecUpdateResultInfo {
  int result;  // 0: done; 1: something else; 2: the shape differs; 3: a node's kind; 5: what it is given; 8: attributes
  GraphNode* node;
  GraphNode* from;
};
struct cudaPointerAttributes {
  int type;  // 0 unregistered, 1 host, 2 device, 3 managed
  int device;
  void* device_pointer;
  void* host_pointer;
  long reserved[8];
};

}  // namespace meshbed::sim::cuda
