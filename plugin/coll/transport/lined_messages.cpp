#include "plugin/coll/transport/lined_messages.h"

#include "plugin/base/check.h"
#include "plugin/coll/transport/plugin_log.h"
#include "plugin/nccl/net_abi.h"

namespace meshbed::coll {
namespace {

/// The slot of the next message; nullptr: the one that had it is under way.
LinedStream::Request* next_slot(LinedStream& stream, std::uint64_t size_bytes) {
  const std::size_t slot = stream.number % stream.requests.size();
  LinedStream::Request& request = stream.requests[slot];
  if (request.inner != nullptr) return nullptr;
  MESHBED_CHECK(lined_bytes(stream.protocol, size_bytes) <= stream.slot_bytes);
  request.stream = &stream;
  request.lines = stream.slots + slot * stream.slot_bytes;
  request.data = nullptr;
  request.size_bytes = size_bytes;
  request.flag = flag_of(stream.number, size_bytes);
  return &request;
}

}  // namespace

int LinedMessages::send(void* comm, void* data, std::uint64_t size_bytes, int tag, void* /*handle*/, void** request) {
  auto& stream = *static_cast<LinedStream*>(comm);
  LinedStream::Request* const next = next_slot(stream, size_bytes);
  *request = nullptr;
  if (next == nullptr) return nccl::kNcclSuccess;
  if (next->written != data) write_lines(stream.protocol, next->flag, data, size_bytes, next->lines);
  next->written = data;
  const int code =
      net_.send(stream.comm, next->lines, lined_bytes(stream.protocol, size_bytes), tag, stream.handle, &next->inner);
  if (code != nccl::kNcclSuccess || next->inner == nullptr) return code;
  next->written = nullptr;
  copied_bytes_ += size_bytes;
  ++stream.number;
  *request = next;
  return nccl::kNcclSuccess;
}

int LinedMessages::receive(void* comm, void* data, std::uint64_t size_bytes, int tag, void* /*handle*/,
                           void** request) {
  auto& stream = *static_cast<LinedStream*>(comm);
  LinedStream::Request* const next = next_slot(stream, size_bytes);
  *request = nullptr;
  if (next == nullptr) return nccl::kNcclSuccess;
  next->data = static_cast<char*>(data);
  const int code = net_.receive(stream.comm, next->lines, lined_bytes(stream.protocol, size_bytes), tag, stream.handle,
                                &next->inner);
  if (code != nccl::kNcclSuccess || next->inner == nullptr) return code;
  ++stream.number;
  *request = next;
  return nccl::kNcclSuccess;
}

int LinedMessages::test(void* request, bool* done, std::uint64_t* size_bytes) {
  auto& tested = *static_cast<LinedStream::Request*>(request);
  std::uint64_t wire_bytes = 0;
  const int code = net_.test(tested.inner, done, &wire_bytes);
  if (code != nccl::kNcclSuccess || !*done) return code;
  tested.inner = nullptr;
  *size_bytes = tested.size_bytes;
  if (tested.data == nullptr) return nccl::kNcclSuccess;
  const Protocol protocol = tested.stream->protocol;
  if (wire_bytes != lined_bytes(protocol, tested.size_bytes)) {
    *size_bytes = unlined_bytes(protocol, wire_bytes);
    return nccl::kNcclSuccess;  // for the caller to see
  }
  if (!read_lines(protocol, tested.flag, tested.lines, tested.data, tested.size_bytes)) {
    plugin_logger()(nccl::kNcclLogWarn, 0, __FILE__, __LINE__,
                    "a message of %llu bytes by protocol %s was reported, and the flags in its lines are not its own: "
                    "do both ranks call the same operation with the same counts, and does the plugin complete a "
                    "receive only when its data are there?",
                    static_cast<unsigned long long>(tested.size_bytes), name_of(protocol));
    return nccl::kNcclInternalError;
  }
  copied_bytes_ += tested.size_bytes;
  return nccl::kNcclSuccess;
}

}  // namespace meshbed::coll
