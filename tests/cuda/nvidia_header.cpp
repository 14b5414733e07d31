// Our declarations of CUDA's binary interface against NVIDIA's headers, where they are installed: whatever differs does
// not compile.
#include <cuda.h>
#include <cuda_runtime.h>

#include "plugin/cuda/constants.h"
#include "plugin/cuda/driver.h"
#include "sim/cuda/abi.h"
#include "tests/cuda/call_shape.h"

namespace ours = meshbed::sim::cuda;

#define SAME_PLACE(their_type, theirs, our_type, mine) \
  static_assert(offsetof(their_type, theirs) == offsetof(ours::our_type, mine))
#define SAME_SIZE(their_type, our_type) static_assert(sizeof(their_type) == sizeof(ours::our_type))

SAME_SIZE(CUDA_MEMCPY2D, CUDA_MEMCPY2D);
SAME_PLACE(CUDA_MEMCPY2D, srcPitch, CUDA_MEMCPY2D, source_pitch);
SAME_PLACE(CUDA_MEMCPY2D, dstDevice, CUDA_MEMCPY2D, target_device);
SAME_PLACE(CUDA_MEMCPY2D, Height, CUDA_MEMCPY2D, height);
SAME_SIZE(CUlaunchConfig, CUlaunchConfig);
SAME_PLACE(CUlaunchConfig, hStream, CUlaunchConfig, stream);
SAME_PLACE(CUlaunchConfig, numAttrs, CUlaunchConfig, attribute_count);
SAME_SIZE(CUlaunchAttribute, LaunchAttribute);
SAME_PLACE(CUlaunchAttribute, value, LaunchAttribute, value);
SAME_SIZE(CUmemAllocationProp, CUmemAllocationProp);
SAME_PLACE(CUmemAllocationProp, location, CUmemAllocationProp, location);
SAME_SIZE(CUmemAccessDesc, CUmemAccessDesc);
SAME_SIZE(CUmemPoolProps, CUmemPoolProps);
SAME_PLACE(CUmemPoolProps, maxSize, CUmemPoolProps, most_bytes);
SAME_SIZE(CUuuid, CUuuid);
SAME_SIZE(cudaLaunchConfig_t, cudaLaunchConfig);
SAME_PLACE(cudaLaunchConfig_t, stream, cudaLaunchConfig, stream);
SAME_SIZE(cudaPointerAttributes, cudaPointerAttributes);
SAME_PLACE(cudaPointerAttributes, hostPointer, cudaPointerAttributes, host_pointer);
SAME_SIZE(cudaFuncAttributes, cudaFuncAttributes);
SAME_PLACE(cudaFuncAttributes, maxDynamicSharedSizeBytes, cudaFuncAttributes, dynamic_shared_bytes_max);
SAME_PLACE(cudaFuncAttributes, numRegs, cudaFuncAttributes, registers);
SAME_SIZE(cudaMemcpy3DParms, cudaMemcpy3DParms);
SAME_PLACE(cudaMemcpy3DParms, dstPtr, cudaMemcpy3DParms, target);
SAME_PLACE(cudaMemcpy3DParms, extent, cudaMemcpy3DParms, extent);
SAME_SIZE(cudaKernelNodeParams, cudaKernelNodeParams);
SAME_PLACE(cudaKernelNodeParams, kernelParams, cudaKernelNodeParams, arguments);
SAME_SIZE(cudaMemsetParams, cudaMemsetParams);
SAME_PLACE(cudaMemsetParams, elementSize, cudaMemsetParams, element_bytes);
SAME_SIZE(cudaHostNodeParams, cudaHostNodeParams);
SAME_SIZE(cudaPitchedPtr, cudaPitchedPtr);
SAME_SIZE(cudaGraphExecUpdateResultInfo, cudaGraphExecUpdateResultInfo);
SAME_SIZE(cudaChannelFormatDesc, cudaChannelFormatDesc);
SAME_SIZE(cudaResourceDesc, cudaResourceDesc);
SAME_PLACE(cudaResourceDesc, res.array.array, cudaResourceDesc, of.array);
SAME_PLACE(cudaResourceDesc, res.linear.sizeInBytes, cudaResourceDesc, of.linear.bytes);
SAME_PLACE(cudaResourceDesc, res.pitch2D.pitchInBytes, cudaResourceDesc, of.pitch.pitch);
SAME_SIZE(cudaTextureDesc, cudaTextureDesc);
SAME_PLACE(cudaTextureDesc, normalizedCoords, cudaTextureDesc, normalized_coordinates);
SAME_PLACE(cudaTextureDesc, borderColor, cudaTextureDesc, border);
SAME_SIZE(CUDA_ARRAY_DESCRIPTOR, CUDA_ARRAY_DESCRIPTOR);
SAME_PLACE(CUDA_ARRAY_DESCRIPTOR, NumChannels, CUDA_ARRAY_DESCRIPTOR, channels);
SAME_SIZE(CUDA_ARRAY3D_DESCRIPTOR, CUDA_ARRAY3D_DESCRIPTOR);
SAME_PLACE(CUDA_ARRAY3D_DESCRIPTOR, Flags, CUDA_ARRAY3D_DESCRIPTOR, flags);
SAME_SIZE(CUDA_RESOURCE_DESC, CUDA_RESOURCE_DESC);
SAME_PLACE(CUDA_RESOURCE_DESC, res.array.hArray, CUDA_RESOURCE_DESC, of.array);
SAME_PLACE(CUDA_RESOURCE_DESC, res.linear.sizeInBytes, CUDA_RESOURCE_DESC, of.linear.bytes);
SAME_PLACE(CUDA_RESOURCE_DESC, res.pitch2D.pitchInBytes, CUDA_RESOURCE_DESC, of.pitch.pitch);
SAME_PLACE(CUDA_RESOURCE_DESC, flags, CUDA_RESOURCE_DESC, flags);
SAME_SIZE(CUDA_TEXTURE_DESC, CUDA_TEXTURE_DESC);
SAME_PLACE(CUDA_TEXTURE_DESC, flags, CUDA_TEXTURE_DESC, flags);
SAME_PLACE(CUDA_TEXTURE_DESC, maxMipmapLevelClamp, CUDA_TEXTURE_DESC, mipmap_most);
SAME_PLACE(CUDA_TEXTURE_DESC, borderColor, CUDA_TEXTURE_DESC, border);
SAME_SIZE(CUctxCreateParams, CUctxCreateParams);
SAME_SIZE(CUDA_MEMCPY3D, CUDA_MEMCPY3D);
SAME_PLACE(CUDA_MEMCPY3D, srcHeight, CUDA_MEMCPY3D, source.height);
SAME_PLACE(CUDA_MEMCPY3D, dstXInBytes, CUDA_MEMCPY3D, target.x_bytes);
SAME_PLACE(CUDA_MEMCPY3D, dstDevice, CUDA_MEMCPY3D, target.device);
SAME_PLACE(CUDA_MEMCPY3D, Depth, CUDA_MEMCPY3D, depth);
SAME_SIZE(CUDA_KERNEL_NODE_PARAMS_v1, CUDA_KERNEL_NODE_PARAMS_v1);
SAME_PLACE(CUDA_KERNEL_NODE_PARAMS_v1, kernelParams, CUDA_KERNEL_NODE_PARAMS_v1, arguments);
SAME_SIZE(CUDA_KERNEL_NODE_PARAMS_v2, CUDA_KERNEL_NODE_PARAMS_v2);
SAME_PLACE(CUDA_KERNEL_NODE_PARAMS_v2, kern, CUDA_KERNEL_NODE_PARAMS_v2, kernel);
SAME_SIZE(CUDA_MEMSET_NODE_PARAMS_v1, cudaMemsetParams);
SAME_PLACE(CUDA_MEMSET_NODE_PARAMS_v1, elementSize, cudaMemsetParams, element_bytes);
SAME_SIZE(CUDA_HOST_NODE_PARAMS_v1, cudaHostNodeParams);
SAME_SIZE(CUDA_MEM_ALLOC_NODE_PARAMS_v1, cudaMemAllocNodeParams);
SAME_PLACE(CUDA_MEM_ALLOC_NODE_PARAMS_v1, dptr, cudaMemAllocNodeParams, address);
SAME_SIZE(CUstreamBatchMemOpParams, CUstreamBatchMemOpParams);
SAME_PLACE(CUstreamBatchMemOpParams, waitValue.address, CUstreamBatchMemOpParams, address);
SAME_PLACE(CUstreamBatchMemOpParams, writeValue.value64, CUstreamBatchMemOpParams, value);
SAME_PLACE(CUstreamBatchMemOpParams, writeValue.flags, CUstreamBatchMemOpParams, flags);
SAME_PLACE(CUstreamBatchMemOpParams, memoryBarrier.flags, CUstreamBatchMemOpParams, barrier_flags);
SAME_SIZE(CUipcMemHandle, CUipcHandle);
SAME_SIZE(CUipcEventHandle, CUipcHandle);
SAME_SIZE(cudaIpcMemHandle_t, CUipcHandle);
SAME_SIZE(CUgraphNodeParams, CUgraphNodeParams);
SAME_PLACE(CUgraphNodeParams, kernel.ctx, CUgraphNodeParams, of.kernel.context);
SAME_PLACE(CUgraphNodeParams, memcpy.copyParams, CUgraphNodeParams, of.copy.parameters);
SAME_PLACE(CUgraphNodeParams, memset.ctx, CUgraphNodeParams, of.fill.context);
#if CUDA_VERSION >= 13000
SAME_PLACE(CUgraphNodeParams, graph.ownership, CUgraphNodeParams, of.child.ownership);
#endif
SAME_PLACE(CUgraphNodeParams, alloc.dptr, CUgraphNodeParams, of.memory.address);
SAME_SIZE(CUgraphEdgeData, CUgraphEdgeData);
SAME_SIZE(CUDA_GRAPH_INSTANTIATE_PARAMS, CUDA_GRAPH_INSTANTIATE_PARAMS);
SAME_PLACE(CUDA_GRAPH_INSTANTIATE_PARAMS, result_out, CUDA_GRAPH_INSTANTIATE_PARAMS, result);
SAME_SIZE(CUgraphExecUpdateResultInfo, cudaGraphExecUpdateResultInfo);
SAME_PLACE(CUgraphExecUpdateResultInfo, errorNode, cudaGraphExecUpdateResultInfo, node);
SAME_PLACE(CUgraphExecUpdateResultInfo, errorFromNode, cudaGraphExecUpdateResultInfo, from);
SAME_PLACE(CUDA_GRAPH_INSTANTIATE_PARAMS, hUploadStream, CUDA_GRAPH_INSTANTIATE_PARAMS, upload_stream);
SAME_PLACE(CUDA_GRAPH_INSTANTIATE_PARAMS, hErrNode_out, CUDA_GRAPH_INSTANTIATE_PARAMS, failed);
SAME_SIZE(cudaGraphInstantiateParams, CUDA_GRAPH_INSTANTIATE_PARAMS);
SAME_SIZE(cudaGraphNodeParams, CUgraphNodeParams);
SAME_SIZE(cudaGraphEdgeData, CUgraphEdgeData);
SAME_PLACE(CUgraphEdgeData, type, CUgraphEdgeData, type);
SAME_PLACE(CUDA_KERNEL_NODE_PARAMS_v2, ctx, CUDA_KERNEL_NODE_PARAMS_v2, context);
SAME_PLACE(CUDA_KERNEL_NODE_PARAMS_v1, sharedMemBytes, CUDA_KERNEL_NODE_PARAMS_v1, shared_bytes);
SAME_PLACE(CUDA_KERNEL_NODE_PARAMS_v1, extra, CUDA_KERNEL_NODE_PARAMS_v1, extra);
SAME_PLACE(CUDA_MEMSET_NODE_PARAMS_v1, pitch, cudaMemsetParams, pitch);
SAME_PLACE(CUDA_MEMSET_NODE_PARAMS_v1, value, cudaMemsetParams, value);
SAME_PLACE(CUDA_MEMSET_NODE_PARAMS_v1, height, cudaMemsetParams, height);
SAME_PLACE(CUDA_HOST_NODE_PARAMS_v1, userData, cudaHostNodeParams, data);
SAME_PLACE(CUDA_MEM_ALLOC_NODE_PARAMS_v1, accessDescs, cudaMemAllocNodeParams, access);
SAME_PLACE(CUDA_MEM_ALLOC_NODE_PARAMS_v1, bytesize, cudaMemAllocNodeParams, bytes);
SAME_SIZE(cudaMemAllocNodeParams, cudaMemAllocNodeParams);
SAME_PLACE(CUgraphNodeParams, eventRecord.event, CUgraphNodeParams, of.event);
SAME_PLACE(CUgraphNodeParams, free.dptr, CUgraphNodeParams, of.freed);
SAME_PLACE(CUgraphNodeParams, host.userData, CUgraphNodeParams, of.host.data);
SAME_PLACE(CUstreamBatchMemOpParams, waitValue.alias, CUstreamBatchMemOpParams, alias);
SAME_SIZE(cudaIpcEventHandle_t, CUipcHandle);
SAME_SIZE(CUmemLocation, CUmemLocation);
SAME_PLACE(CUmemAccessDesc, flags, CUmemAccessDesc, flags);
SAME_PLACE(CUmemAllocationProp, allocFlags, CUmemAllocationProp, flags);
SAME_PLACE(CUmemPoolProps, location, CUmemPoolProps, location);
SAME_PLACE(CUmemPoolProps, usage, CUmemPoolProps, usage);
SAME_SIZE(cudaExtent, cudaExtent);
SAME_SIZE(cudaPos, cudaPos);
SAME_PLACE(cudaMemcpy3DParms, kind, cudaMemcpy3DParms, kind);
static_assert(sizeof(dim3) == sizeof(ours::dim3));
static_assert(CUDA_VERSION / 1000 != 13 || CUDA_VERSION >= ours::kCudaVersion);

static_assert(int{CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD} == int{ours::kStreamCaptureWrongThread});
static_assert(int{CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE} == int{ours::kGraphExecUpdateFailure});
static_assert(int{CUDA_ERROR_CAPTURED_EVENT} == int{ours::kCapturedEvent});
static_assert(int{CUDA_ERROR_ILLEGAL_STATE} == int{ours::kIllegalState});
static_assert(int{CUDA_ERROR_PEER_ACCESS_UNSUPPORTED} == int{ours::kPeerAccessUnsupported});
static_assert(int{CUDA_ERROR_STREAM_CAPTURE_IMPLICIT} == int{ours::kStreamCaptureImplicit});
static_assert(int{CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE} == int{ours::kCooperativeLaunchTooLarge});
static_assert(int{cudaErrorInvalidDeviceFunction} == int{ours::kInvalidDeviceFunction});
static_assert(int{cudaErrorMissingConfiguration} == int{ours::kMissingConfiguration});
static_assert(int{CU_LAUNCH_ATTRIBUTE_PRIORITY} == int{ours::kAttributePriority});
static_assert(int{CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION} == int{ours::kAttributeClusterDimension});
static_assert(CU_STREAM_NON_BLOCKING == ours::kStreamNonBlocking);
static_assert(CU_EVENT_DISABLE_TIMING == ours::kEventDisableTiming);
static_assert(CU_MEMORYTYPE_ARRAY == ours::kMemoryArray);

// The product's own door: each call's parameters, in number and size, pointers where there are pointers; and constants.
#define MESHBED_CUDA_ENTRY(name, parameters)                                        \
  static_assert(meshbed::test::shape_of(static_cast<decltype(&::name)>(nullptr)) == \
                meshbed::test::shape_of(meshbed::cuda::Calls{}.name));
#include "plugin/cuda/driver_calls.def"
#undef MESHBED_CUDA_ENTRY
static_assert(CUDA_SUCCESS == meshbed::cuda::kCudaSuccess && CUDA_ERROR_NOT_READY == meshbed::cuda::kCudaNotReady);
static_assert(CUDA_ERROR_NO_DEVICE == meshbed::cuda::kErrorNoDevice);
static_assert(CU_DEVICE_ATTRIBUTE_CLOCK_RATE == meshbed::cuda::kDeviceClockKhz);
static_assert(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT == meshbed::cuda::kDeviceSms);
static_assert(CU_DEVICE_ATTRIBUTE_INTEGRATED == meshbed::cuda::kDeviceIntegrated);
static_assert(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE == meshbed::cuda::kDeviceL2Bytes);
static_assert(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR == meshbed::cuda::kDeviceThreadsOfSm);
static_assert(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR == meshbed::cuda::kDeviceMajor);
static_assert(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR == meshbed::cuda::kDeviceMinor);
static_assert(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR == meshbed::cuda::kDeviceSharedBytesOfSm);
static_assert(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR == meshbed::cuda::kDeviceRegistersOfSm);
static_assert(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN == meshbed::cuda::kDeviceSharedBytesOfBlock);
static_assert(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR == meshbed::cuda::kDeviceBlocksOfSm);
static_assert(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED == meshbed::cuda::kDeviceDmaBuf);
static_assert(CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD == meshbed::cuda::kRangeDmaBuf);
static_assert(CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE == meshbed::cuda::kPointerGpuDirect);
static_assert(CU_POINTER_ATTRIBUTE_CONTEXT == meshbed::cuda::kPointerContext);
static_assert(CU_POINTER_ATTRIBUTE_MEMORY_TYPE == meshbed::cuda::kPointerMemoryType);
static_assert(CU_POINTER_ATTRIBUTE_IS_MANAGED == meshbed::cuda::kPointerIsManaged);
static_assert(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL == meshbed::cuda::kPointerDeviceOrdinal);
static_assert(CU_MEMORYTYPE_DEVICE == meshbed::cuda::kMemoryTypeDevice);
static_assert(CU_MEMHOSTALLOC_PORTABLE == meshbed::cuda::kHostAllocPortable);
static_assert(CU_MEMHOSTALLOC_DEVICEMAP == meshbed::cuda::kHostAllocMapped);
static_assert(CU_STREAM_NON_BLOCKING == meshbed::cuda::kStreamNonBlocking);
static_assert(CU_EVENT_DISABLE_TIMING == meshbed::cuda::kEventDisableTiming);
static_assert(CU_STREAM_WAIT_VALUE_GEQ == meshbed::cuda::kWaitGreaterOrEqual);
static_assert(CU_STREAM_CAPTURE_STATUS_NONE == meshbed::cuda::kCaptureNone);
static_assert(CU_STREAM_CAPTURE_MODE_RELAXED == meshbed::cuda::kCaptureRelaxed);
