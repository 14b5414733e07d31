// The runtime interface: each call is the driver's, in the primary context of the thread's device, and remembers its
// error for cudaGetLastError.

#include "sim/cuda/runtime.h"

#include "sim/cuda/system.h"

namespace meshbed::sim::cuda {
namespace {

CUresult count_devices(int* count) {
  if (count == nullptr) return kInvalidValue;
  const Driver* driver = current_driver();
  *count = driver != nullptr ? static_cast<int>(driver->devices.size()) : 0;
  return *count > 0 ? kSuccess : kNoDevice;
}

}  // namespace

CUresult remember(CUresult code) {
  // A query that is not done is no error to be asked for later.
  if (code == kSuccess || code == kNotReady) return code;
  if (Driver* driver = current_driver()) own_state(*driver).last_error = code;
  return code;
}

CUresult begin_runtime() {
  Driver* driver = current_driver();
  if (driver == nullptr || driver->devices.empty()) return kNoDevice;
  driver->initialized = true;
  ThreadState& thread = own_state(*driver);
  if (!thread.contexts.empty()) return kSuccess;
  Context& context = primary_of(*driver, thread.device);
  if (context.retained == 0) context.retained = 1;
  thread.contexts.push_back(&context);
  return kSuccess;
}

CUresult cudaDriverGetVersion(int* version) { return remember(cuDriverGetVersion(version)); }
CUresult cudaRuntimeGetVersion(int* version) { return remember(cuDriverGetVersion(version)); }
CUresult cudaGetDeviceCount(int* count) { return remember(count_devices(count)); }

CUresult cudaGetDevice(int* device) {
  Driver* driver = current_driver();
  if (driver == nullptr || driver->devices.empty()) return remember(kNoDevice);
  if (device == nullptr) return remember(kInvalidValue);
  const ThreadState& thread = own_state(*driver);
  *device = thread.contexts.empty() ? thread.device : thread.contexts.back()->ordinal;
  return kSuccess;
}

CUresult cudaSetDevice(int device) {
  Driver* driver = current_driver();
  if (driver == nullptr || driver->devices.empty()) return remember(kNoDevice);
  if (find_device(*driver, device) == nullptr) return remember(refuse_device(*driver, device));
  ThreadState& thread = own_state(*driver);
  thread.device = device;
  if (!thread.contexts.empty()) thread.contexts.pop_back();
  return remember(begin_runtime());
}

CUresult cudaGetLastError() {
  Driver* driver = current_driver();
  if (driver == nullptr) return kNoDevice;
  ThreadState& thread = own_state(*driver);
  const CUresult last = thread.last_error;
  thread.last_error = kSuccess;
  return last;
}

CUresult cudaPeekAtLastError() {
  Driver* driver = current_driver();
  return driver != nullptr ? own_state(*driver).last_error : kNoDevice;
}

CUresult cudaDeviceSynchronize() {
  return in_runtime([] { return cuCtxSynchronize(); });
}

CUresult cudaDeviceReset() {
  return in_runtime([] {
    int device = 0;
    cudaGetDevice(&device);
    return cuDevicePrimaryCtxReset_v2(device);
  });
}

CUresult cudaDeviceGetAttribute(int* value, int attribute, int device) {
  return in_runtime([&] { return cuDeviceGetAttribute(value, attribute, device); });
}
CUresult cudaDeviceGetPCIBusId(char* text, int length, int device) {
  return in_runtime([&] { return cuDeviceGetPCIBusId(text, length, device); });
}
CUresult cudaDeviceGetByPCIBusId(int* device, const char* text) {
  return in_runtime([&] { return cuDeviceGetByPCIBusId(device, text); });
}
CUresult cudaStreamSetAttribute(Stream* stream, int id, const void* value) {
  return in_runtime([&] { return cuStreamSetAttribute(stream, id, value); });
}
CUresult cudaStreamGetAttribute(Stream* stream, int id, void* value) {
  return in_runtime([&] { return cuStreamGetAttribute(stream, id, value); });
}
CUresult cudaStreamCopyAttributes(Stream* target, Stream* source) {
  return in_runtime([&] { return cuStreamCopyAttributes(target, source); });
}
CUresult cudaCtxResetPersistingL2Cache() {
  return in_runtime([] { return cuCtxResetPersistingL2Cache(); });
}

CUresult cudaDeviceCanAccessPeer(int* answer, int device, int peer) {
  return in_runtime([&] { return cuDeviceCanAccessPeer(answer, device, peer); });
}
CUresult cudaDeviceGetStreamPriorityRange(int* lowest, int* highest) {
  return in_runtime([&] { return cuCtxGetStreamPriorityRange(lowest, highest); });
}

// --- streams, events, graphs ---
CUresult cudaStreamCreate(Stream** stream) {
  return in_runtime([&] { return cuStreamCreate(stream, 0); });
}
CUresult cudaStreamCreateWithFlags(Stream** stream, unsigned flags) {
  return in_runtime([&] { return cuStreamCreate(stream, flags); });
}
CUresult cudaStreamCreateWithPriority(Stream** stream, unsigned flags, int priority) {
  return in_runtime([&] { return cuStreamCreateWithPriority(stream, flags, priority); });
}
CUresult cudaStreamDestroy(Stream* stream) {
  return in_runtime([&] { return cuStreamDestroy_v2(stream); });
}
CUresult cudaStreamSynchronize(Stream* stream) {
  return in_runtime([&] { return cuStreamSynchronize(stream); });
}
CUresult cudaStreamQuery(Stream* stream) {
  return in_runtime([&] { return cuStreamQuery(stream); });
}
CUresult cudaStreamWaitEvent(Stream* stream, Event* event, unsigned flags) {
  return in_runtime([&] { return cuStreamWaitEvent(stream, event, flags); });
}
CUresult cudaStreamGetFlags(Stream* stream, unsigned* flags) {
  return in_runtime([&] { return cuStreamGetFlags(stream, flags); });
}
CUresult cudaStreamGetPriority(Stream* stream, int* priority) {
  return in_runtime([&] { return cuStreamGetPriority(stream, priority); });
}
CUresult cudaStreamAddCallback(Stream* stream, CUstreamCallback function, void* data, unsigned flags) {
  return in_runtime([&] { return cuStreamAddCallback(stream, function, data, flags); });
}
CUresult cudaLaunchHostFunc(Stream* stream, CUhostFn function, void* data) {
  return in_runtime([&] { return cuLaunchHostFunc(stream, function, data); });
}
CUresult cudaStreamBeginCapture(Stream* stream, int mode) {
  return in_runtime([&] { return cuStreamBeginCapture_v2(stream, mode); });
}
CUresult cudaStreamEndCapture(Stream* stream, Graph** graph) {
  return in_runtime([&] { return cuStreamEndCapture(stream, graph); });
}
CUresult cudaStreamIsCapturing(Stream* stream, int* status) {
  return in_runtime([&] { return cuStreamIsCapturing(stream, status); });
}
CUresult cudaGraphDestroy(Graph* graph) {
  return in_runtime([&] { return cuGraphDestroy(graph); });
}
CUresult cudaGraphGetNodes(Graph* graph, GraphNode** nodes, std::size_t* count) {
  return in_runtime([&] { return cuGraphGetNodes(graph, nodes, count); });
}
CUresult cudaGraphInstantiate(GraphExec** executable, Graph* graph, unsigned long long flags) {
  return in_runtime([&] { return cuGraphInstantiateWithFlags(executable, graph, flags); });
}
CUresult cudaGraphExecDestroy(GraphExec* executable) {
  return in_runtime([&] { return cuGraphExecDestroy(executable); });
}
CUresult cudaGraphLaunch(GraphExec* executable, Stream* stream) {
  return in_runtime([&] { return cuGraphLaunch(executable, stream); });
}
CUresult cudaEventCreate(Event** event) {
  return in_runtime([&] { return cuEventCreate(event, 0); });
}
CUresult cudaEventCreateWithFlags(Event** event, unsigned flags) {
  return in_runtime([&] { return cuEventCreate(event, flags); });
}
CUresult cudaEventDestroy(Event* event) {
  return in_runtime([&] { return cuEventDestroy_v2(event); });
}
CUresult cudaEventRecord(Event* event, Stream* stream) {
  return in_runtime([&] { return cuEventRecord(event, stream); });
}
CUresult cudaEventRecordWithFlags(Event* event, Stream* stream, unsigned flags) {
  return in_runtime([&] { return cuEventRecordWithFlags(event, stream, flags); });
}
CUresult cudaEventQuery(Event* event) {
  return in_runtime([&] { return cuEventQuery(event); });
}
CUresult cudaEventSynchronize(Event* event) {
  return in_runtime([&] { return cuEventSynchronize(event); });
}
CUresult cudaEventElapsedTime(float* milliseconds, Event* begin, Event* end) {
  return in_runtime([&] { return cuEventElapsedTime_v2(milliseconds, begin, end); });
}

}  // namespace meshbed::sim::cuda
