#pragma once
// Values of cuda.h's that the door passes or looks for; tests/cuda/nvidia_header.cpp compares them with NVIDIA's header
// where it is installed.

namespace meshbed::cuda {

inline constexpr int kErrorNoDevice = 100;            // CUDA_ERROR_NO_DEVICE
inline constexpr int kDeviceClockKhz = 13;            // CU_DEVICE_ATTRIBUTE_CLOCK_RATE
inline constexpr int kDeviceSms = 16;                 // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
inline constexpr int kDeviceIntegrated = 18;          // CU_DEVICE_ATTRIBUTE_INTEGRATED
inline constexpr int kDeviceL2Bytes = 38;             // CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE
inline constexpr int kDeviceThreadsOfSm = 39;         // CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR
inline constexpr int kDeviceMajor = 75;               // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
inline constexpr int kDeviceMinor = 76;               // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR
inline constexpr int kDeviceSharedBytesOfSm = 81;     // CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR
inline constexpr int kDeviceRegistersOfSm = 82;       // CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR
inline constexpr int kDeviceSharedBytesOfBlock = 97;  // CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
inline constexpr int kDeviceBlocksOfSm = 106;         // CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR
inline constexpr int kDeviceDmaBuf = 124;             // CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED
inline constexpr int kRangeDmaBuf = 1;                // CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD
inline constexpr int kPointerContext = 1;             // CU_POINTER_ATTRIBUTE_CONTEXT
inline constexpr int kPointerMemoryType = 2;          // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
inline constexpr int kPointerIsManaged = 8;           // CU_POINTER_ATTRIBUTE_IS_MANAGED
inline constexpr int kPointerDeviceOrdinal = 9;       // CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
inline constexpr int kPointerGpuDirect = 15;          // CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE
inline constexpr unsigned kMemoryTypeDevice = 2;      // CU_MEMORYTYPE_DEVICE
inline constexpr unsigned kHostAllocPortable = 1;     // CU_MEMHOSTALLOC_PORTABLE
inline constexpr unsigned kHostAllocMapped = 2;       // CU_MEMHOSTALLOC_DEVICEMAP
inline constexpr unsigned kStreamNonBlocking = 1;     // CU_STREAM_NON_BLOCKING
inline constexpr unsigned kEventDisableTiming = 2;    // CU_EVENT_DISABLE_TIMING
inline constexpr unsigned kWaitGreaterOrEqual = 0;    // CU_STREAM_WAIT_VALUE_GEQ: (int32_t)(*address - value) >= 0
inline constexpr int kCaptureNone = 0;                // CU_STREAM_CAPTURE_STATUS_NONE
inline constexpr int kCaptureRelaxed = 2;             // CU_STREAM_CAPTURE_MODE_RELAXED

}  // namespace meshbed::cuda
