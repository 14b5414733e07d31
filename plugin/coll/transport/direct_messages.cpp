#include "plugin/coll/transport/direct_messages.h"

namespace meshbed::coll {
namespace {

/// Of the next message; nullptr: the one that had it is under way.
DirectStream::Request* next_request(DirectStream& stream, const ReceivePart& part) {
  DirectStream::Request& request = stream.requests[stream.number % stream.requests.size()];
  if (request.inner != nullptr) return nullptr;
  request = {.stream = &stream, .part = part};
  return &request;
}

/// What the plugin answered to a request for a message.
int begun(int code, DirectStream::Request& begun, void** request) {
  if (code != nccl::kNcclSuccess || begun.inner == nullptr) return code;
  ++begun.stream->number;
  *request = &begun;
  return code;
}

}  // namespace

int DirectMessages::send(void* comm, void* data, std::uint64_t size_bytes, int tag, void* handle, void** request) {
  auto& stream = *static_cast<DirectStream*>(comm);
  DirectStream::Request* const next = next_request(stream, {});
  *request = nullptr;
  if (next == nullptr) return nccl::kNcclSuccess;
  return begun(net_.send(stream.comm, data, size_bytes, tag, handle, &next->inner), *next, request);
}

int DirectMessages::receive(void* comm, void* data, std::uint64_t size_bytes, int tag, void* handle, void** request) {
  auto& stream = *static_cast<DirectStream*>(comm);
  DirectStream::Request* const next = next_request(stream, {.data = data, .tag = tag, .handle = handle});
  *request = nullptr;
  if (next == nullptr) return nccl::kNcclSuccess;
  return begun(net_.receive(stream.comm, data, size_bytes, tag, handle, &next->inner), *next, request);
}

int DirectMessages::test(void* request, bool* done, std::uint64_t* size_bytes) {
  auto& tested = *static_cast<DirectStream::Request*>(request);
  std::uint64_t none = 0;
  if (int code = net_.test(tested.inner, done, tested.flushes ? &none : &tested.part.size_bytes);
      code != nccl::kNcclSuccess || !*done) {
    return code;
  }
  tested.inner = nullptr;
  const ReceivePart& part = tested.part;
  const bool is_gpus = part.data != nullptr && part.handle != tested.stream->host_handle;
  if (is_gpus && part.size_bytes > 0 && !tested.flushes) {
    const int code = net_.flush(tested.stream->comm, {&tested.part, 1}, &tested.inner);
    tested.flushes = true;
    *done = code == nccl::kNcclSuccess && tested.inner == nullptr;  // there is nothing to wait for
    if (!*done) return code;
  }
  *size_bytes = tested.part.size_bytes;
  return nccl::kNcclSuccess;
}

}  // namespace meshbed::coll
