// Entry points of the data path and of memory: regMr, deregMr, isend, irecv, iflush, test.
#include <array>
#include <span>

#include "plugin/nccl/boundary.h"
#include "plugin/nccl/entry.h"
#include "plugin/nccl/process.h"
#include "plugin/net/memory.h"
#include "plugin/net/receive.h"
#include "plugin/net/send.h"

namespace meshbed::nccl {
namespace {

Error refuse(const char* entry, const char* what) {
  MESHBED_WARN("%s: %s", entry, what);
  return {.code = ErrorCode::kInvalidArgument, .scope = Scope::kRequest, .text = what, .os_errno = 0};
}

/// A sending or a receiving connection; nullptr: neither.
net::Connection* connection_of(void* comm) {
  if (auto* send = net::object_cast<net::SendConnection>(comm)) return send;
  return net::object_cast<net::ReceiveConnection>(comm);
}

}  // namespace

int reg_mr(void* comm, void* data, std::size_t size, int type, void** mhandle) {
  return at_boundary("regMr", [&]() -> Result<void> {
    net::Connection* connection = connection_of(comm);
    if (connection == nullptr || mhandle == nullptr) return refuse("regMr", "bad arguments");
    if (type != kPtrHost) {
      MESHBED_WARN("regMr: memory of type %d; only host memory (%d) is offered in ptrSupport", type, kPtrHost);
      return Error{.code = ErrorCode::kUnsupported, .scope = Scope::kRequest, .text = "not host memory", .os_errno = 0};
    }
    auto memory = transport()->register_memory(*connection, data, size);
    if (!memory) return memory.error();
    *mhandle = net::to_pointer(*memory);
    return ok();
  });
}

int dereg_mr(void* comm, void* mhandle) {
  return at_boundary("deregMr", [&]() -> Result<void> {
    auto* memory = net::object_cast<net::Memory>(mhandle);
    if (connection_of(comm) == nullptr || memory == nullptr) return refuse("deregMr", "bad arguments");
    memory->release();
    return ok();
  });
}

int isend(void* send_comm, void* data, std::size_t size, int tag, void* mhandle, void* /*event*/, void** request) {
  return at_boundary("isend", [&]() -> Result<void> {
    auto* connection = net::object_cast<net::SendConnection>(send_comm);
    auto* memory = net::object_cast<net::Memory>(mhandle);
    if (connection == nullptr || request == nullptr || (memory == nullptr && mhandle != nullptr)) {
      return refuse("isend", "bad arguments");
    }
    auto posted = connection->post({.data = data, .size_bytes = size, .tag = tag, .memory = memory});
    if (!posted) return posted.error();
    *request = *posted != nullptr ? net::to_pointer(*posted) : nullptr;
    return ok();
  });
}

int irecv(void* recv_comm, int n, void** data, std::size_t* sizes, int* tags, void** mhandles, void** /*events*/,
          void** request) {
  return at_boundary("irecv", [&]() -> Result<void> {
    auto* connection = net::object_cast<net::ReceiveConnection>(recv_comm);
    const bool complete = data != nullptr && sizes != nullptr && tags != nullptr && mhandles != nullptr;
    if (connection == nullptr || request == nullptr || !complete) return refuse("irecv", "bad arguments");
    if (n < 1 || n > kMaxRecvs) return refuse("irecv", "a group has 1 to 8 receives");
    std::array<net::ReceivePart, kMaxRecvs> parts;
    for (int index = 0; index < n; ++index) {
      auto* memory = net::object_cast<net::Memory>(mhandles[index]);
      if (memory == nullptr && mhandles[index] != nullptr) return refuse("irecv", "this is no registered memory");
      parts[static_cast<std::size_t>(index)] = {
          .data = data[index], .size_bytes = sizes[index], .tag = tags[index], .memory = memory};
    }
    auto posted = connection->post(std::span(parts).first(static_cast<std::size_t>(n)));
    if (!posted) return posted.error();
    *request = *posted != nullptr ? net::to_pointer(*posted) : nullptr;
    return ok();
  });
}

int iflush(void* recv_comm, int /*n*/, void** /*data*/, int* /*sizes*/, void** /*mhandles*/, void** request) {
  return at_boundary("iflush", [&]() -> Result<void> {
    if (net::object_cast<net::ReceiveConnection>(recv_comm) == nullptr || request == nullptr) {
      return refuse("iflush", "bad arguments");
    }
    *request = nullptr;
    return ok();
  });
}

int test(void* request, int* done, int* sizes) {
  return at_boundary("test", [&]() -> Result<void> {
    auto* posted = net::object_cast<net::Request>(request);
    if (posted == nullptr || done == nullptr) return refuse("test", "this is no request, or it was completed before");
    auto complete = posted->connection->test(*posted, sizes);
    if (!complete) return complete.error();
    *done = *complete ? 1 : 0;
    return ok();
  });
}

int isend_plain(void* send_comm, void* data, std::size_t size, int tag, void* mhandle, void** request) {
  return isend(send_comm, data, size, tag, mhandle, nullptr, request);
}

int irecv_plain(void* recv_comm, int n, void** data, std::size_t* sizes, int* tags, void** mhandles, void** request) {
  return irecv(recv_comm, n, data, sizes, tags, mhandles, nullptr, request);
}

}  // namespace meshbed::nccl
