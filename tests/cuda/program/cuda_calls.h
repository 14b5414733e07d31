/* The part of cuda.h and cuda_runtime.h that the tests' programs use, declared for ourselves, so that they build where
 * no toolkit is. */
#ifndef MESHBED_TESTS_CUDA_CALLS_H
#define MESHBED_TESTS_CUDA_CALLS_H
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st* CUcontext;
typedef struct CUstream_st* CUstream;
typedef struct CUevent_st* CUevent;
typedef struct CUmod_st* CUmodule;
typedef struct CUfunc_st* CUfunction;
typedef struct CUgraph_st* CUgraph;
typedef struct CUgraphExec_st* CUgraphExec;
typedef struct CUmemPool_st* CUmemoryPool;

CUresult cuInit(unsigned flags);
CUresult cuDriverGetVersion(int* version);
CUresult cuGetErrorName(CUresult error, const char** name);
CUresult cuGetErrorString(CUresult error, const char** text);
CUresult cuGetProcAddress_v2(const char* name, void** function, int version, unsigned long long flags, int* status);
CUresult cuGetExportTable(const void** table, const void* id);
CUresult cuDeviceGet(CUdevice* device, int ordinal);
CUresult cuDeviceGetCount(int* count);
CUresult cuDeviceGetName(char* name, int length, CUdevice device);
CUresult cuDeviceGetAttribute(int* value, int attribute, CUdevice device);
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device);
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device);
CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active);
CUresult cuCtxCreate_v2(CUcontext* context, unsigned flags, CUdevice device);
CUresult cuCtxDestroy_v2(CUcontext context);
CUresult cuCtxPushCurrent_v2(CUcontext context);
CUresult cuCtxPopCurrent_v2(CUcontext* context);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuCtxGetCurrent(CUcontext* context);
CUresult cuCtxSynchronize(void);
CUresult cuMemGetInfo_v2(size_t* left, size_t* total);
CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t size);
CUresult cuMemAllocPitch_v2(CUdeviceptr* address, size_t* pitch, size_t width, size_t height, unsigned element);
CUresult cuMemFree_v2(CUdeviceptr address);
CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* size, CUdeviceptr address);
CUresult cuMemHostAlloc(void** address, size_t size, unsigned flags);
CUresult cuMemFreeHost(void* address);
CUresult cuMemHostRegister_v2(void* address, size_t size, unsigned flags);
CUresult cuMemHostUnregister(void* address);
CUresult cuMemAllocManaged(CUdeviceptr* address, size_t size, unsigned flags);
CUresult cuMemAllocAsync(CUdeviceptr* address, size_t size, CUstream stream);
CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream);
CUresult cuPointerGetAttribute(void* value, int attribute, CUdeviceptr address);
CUresult cuMemGetHandleForAddressRange(void* handle, CUdeviceptr address, size_t size, int type,
                                       unsigned long long flags);
CUresult cuMemAddressReserve(CUdeviceptr* address, size_t size, size_t alignment, CUdeviceptr wanted,
                             unsigned long long flags);
CUresult cuMemAddressFree(CUdeviceptr address, size_t size);
CUresult cuMemCreate(unsigned long long* handle, size_t size, const void* properties, unsigned long long flags);
CUresult cuMemRelease(unsigned long long handle);
CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset, unsigned long long handle, unsigned long long flags);
CUresult cuMemUnmap(CUdeviceptr address, size_t size);
CUresult cuMemSetAccess(CUdeviceptr address, size_t size, const void* access, size_t count);
CUresult cuMemcpyHtoD_v2(CUdeviceptr target, const void* source, size_t size);
CUresult cuMemcpyDtoH_v2(void* target, CUdeviceptr source, size_t size);
CUresult cuMemcpyDtoD_v2(CUdeviceptr target, CUdeviceptr source, size_t size);
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr target, const void* source, size_t size, CUstream stream);
CUresult cuMemcpyDtoHAsync_v2(void* target, CUdeviceptr source, size_t size, CUstream stream);
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr target, CUdeviceptr source, size_t size, CUstream stream);
CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, size_t* bytes, CUmodule module, const char* name);
CUresult cuMemsetD32_v2(CUdeviceptr target, unsigned value, size_t count);
CUresult cuMemsetD2D8_v2(CUdeviceptr target, size_t pitch, unsigned char value, size_t width, size_t height);
CUresult cuMemsetD32Async(CUdeviceptr target, unsigned value, size_t count, CUstream stream);
CUresult cuStreamCreate(CUstream* stream, unsigned flags);
CUresult cuStreamDestroy_v2(CUstream stream);
CUresult cuStreamSynchronize(CUstream stream);
CUresult cuStreamQuery(CUstream stream);
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags);
CUresult cuStreamBeginCapture_v2(CUstream stream, int mode);
CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph);
CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, unsigned value, unsigned flags);
CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, unsigned long long value, unsigned flags);
CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, unsigned value, unsigned flags);
CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, unsigned long long value, unsigned flags);
CUresult cuLaunchHostFunc(CUstream stream, void (*function)(void*), void* data);
CUresult cuEventCreate(CUevent* event, unsigned flags);
CUresult cuEventDestroy_v2(CUevent event);
CUresult cuEventRecord(CUevent event, CUstream stream);
CUresult cuEventQuery(CUevent event);
CUresult cuEventSynchronize(CUevent event);
CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent begin, CUevent end);
CUresult cuGraphInstantiateWithFlags(CUgraphExec* executable, CUgraph graph, unsigned long long flags);
CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream);
CUresult cuGraphExecDestroy(CUgraphExec executable);
CUresult cuGraphDestroy(CUgraph graph);
CUresult cuModuleLoadData(CUmodule* module, const void* image);
CUresult cuModuleUnload(CUmodule module);
CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name);
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function, int threads, size_t shared);
CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void** arguments,
                        void** extra);
CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                                   CUstream stream, void** arguments);
CUresult cuMemcpy3DPeer(const void* copy);

typedef int cudaError_t;
typedef struct CudaDim3 {
  unsigned x, y, z;
} CudaDim3;
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaMalloc(void** address, size_t size);
cudaError_t cudaFree(void* address);
cudaError_t cudaMemcpy(void* target, const void* source, size_t size, int kind);
cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* source, size_t size, size_t offset, int kind);
cudaError_t cudaMemcpyFromSymbol(void* target, const void* symbol, size_t size, size_t offset, int kind);
cudaError_t cudaMemset(void* target, int value, size_t size);
cudaError_t cudaStreamCreate(CUstream* stream);
cudaError_t cudaStreamSynchronize(CUstream stream);
cudaError_t cudaStreamDestroy(CUstream stream);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaDeviceReset(void);
cudaError_t cudaGetLastError(void);
cudaError_t cudaPeekAtLastError(void);
const char* cudaGetErrorName(cudaError_t error);
const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaLaunchKernel(const void* function, CudaDim3 grid, CudaDim3 block, void** arguments, size_t shared,
                             CUstream stream);
void** __cudaRegisterFatBinary(void* image);
void __cudaRegisterFatBinaryEnd(void** binary);
void __cudaUnregisterFatBinary(void** binary);
void __cudaRegisterFunction(void** binary, const char* host, char* device, const char* name, int threads, void* tid,
                            void* bid, void* block, void* grid, int* warps);
void __cudaRegisterVar(void** binary, char* host, char* device, const char* name, int external, size_t size,
                       int constant, int global);
#ifdef __cplusplus
}
#endif
#endif
