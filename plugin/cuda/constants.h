#pragma once
// Values of cuda.h's that the door passes or looks for; tests/cuda/nvidia_header.cpp compares them with NVIDIA's header
// where it is installed.

namespace meshbed::cuda {

inline constexpr int kPointerContext = 1;           // CU_POINTER_ATTRIBUTE_CONTEXT
inline constexpr int kPointerMemoryType = 2;        // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
inline constexpr int kPointerIsManaged = 8;         // CU_POINTER_ATTRIBUTE_IS_MANAGED
inline constexpr int kPointerDeviceOrdinal = 9;     // CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
inline constexpr unsigned kMemoryTypeDevice = 2;    // CU_MEMORYTYPE_DEVICE
inline constexpr unsigned kHostAllocPortable = 1;   // CU_MEMHOSTALLOC_PORTABLE
inline constexpr unsigned kHostAllocMapped = 2;     // CU_MEMHOSTALLOC_DEVICEMAP
inline constexpr unsigned kStreamNonBlocking = 1;   // CU_STREAM_NON_BLOCKING
inline constexpr unsigned kEventDisableTiming = 2;  // CU_EVENT_DISABLE_TIMING
inline constexpr unsigned kWaitGreaterOrEqual = 0;  // CU_STREAM_WAIT_VALUE_GEQ: (int32_t)(*address - value) >= 0
inline constexpr int kCaptureNone = 0;              // CU_STREAM_CAPTURE_STATUS_NONE
inline constexpr int kCaptureRelaxed = 2;           // CU_STREAM_CAPTURE_MODE_RELAXED

}  // namespace meshbed::cuda
