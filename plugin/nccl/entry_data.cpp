// Entry points of the data path and of memory: regMr, regMrDmaBuf, deregMr, isend, irecv, iflush, test.
#include <array>
#include <span>

#include "plugin/nccl/boundary.h"
#include "plugin/nccl/entry.h"
#include "plugin/nccl/process.h"
#include "plugin/net/process/memory.h"
#include "plugin/net/rdma/receive.h"
#include "plugin/net/rdma/send.h"
#include "plugin/net/tcp/tcp_receive.h"
#include "plugin/net/tcp/tcp_send.h"

namespace meshbed::nccl {
namespace {

/// A sending or a receiving connection; nullptr: neither.
net::Endpoint* connection_of(void* comm) {
  if (auto* send = net::object_cast<net::SendConnection>(comm)) return send;
  if (auto* receive = net::object_cast<net::ReceiveConnection>(comm)) return receive;
  if (auto* send = net::object_cast<net::TcpSendConnection>(comm)) return send;
  return net::object_cast<net::TcpReceiveConnection>(comm);
}

bool is_receiver(void* comm) {
  return net::object_cast<net::ReceiveConnection>(comm) != nullptr ||
         net::object_cast<net::TcpReceiveConnection>(comm) != nullptr;
}

Result<void> register_memory(const char* entry, void* comm, const net::MemoryCall& call, void** mhandle) {
  net::Endpoint* connection = connection_of(comm);
  if (connection == nullptr || mhandle == nullptr) return refuse(entry, "bad arguments");
  auto memory = transport()->register_memory(*connection, call);
  if (!memory) return memory.error();
  *mhandle = net::to_pointer(*memory);
  return ok();
}

}  // namespace

int reg_mr(void* comm, void* data, std::size_t size, int type, void** mhandle) {
  return at_boundary("regMr", [&]() -> Result<void> {
    if (type != kPtrHost && type != kPtrCuda) return refuse("regMr", "memory is the host's (1) or a GPU's (2)");
    const auto kind = type == kPtrHost ? net::MemoryKind::kHost : net::MemoryKind::kDevice;
    return register_memory("regMr", comm, {.data = data, .size_bytes = size, .kind = kind}, mhandle);
  });
}

int reg_mr_dma_buf(void* comm, void* data, std::size_t size, int type, std::uint64_t offset, int fd, void** mhandle) {
  return at_boundary("regMrDmaBuf", [&]() -> Result<void> {
    if (type != kPtrCuda) return refuse("regMrDmaBuf", "a dma-buf is a GPU's memory (2)");
    return register_memory("regMrDmaBuf", comm,
                           {.data = data,
                            .size_bytes = size,
                            .kind = net::MemoryKind::kDevice,
                            .dma_buf = verbs::DmaBuf{.descriptor = fd, .offset_bytes = offset}},
                           mhandle);
  });
}

int dereg_mr(void* comm, void* mhandle) {
  return at_boundary("deregMr", [&]() -> Result<void> {
    auto* memory = net::object_cast<net::Memory>(mhandle);
    if (connection_of(comm) == nullptr || memory == nullptr) return refuse("deregMr", "bad arguments");
    if (is_fork())
      return refuse("deregMr", "called in a child (fork) of the process that it belongs to, which keeps it");
    memory->release();
    return ok();
  });
}

int isend(void* send_comm, void* data, std::size_t size, int tag, void* mhandle, void* event, void** request) {
  return at_boundary("isend", [&]() -> Result<void> {
    auto* connection = net::object_cast<net::SendConnection>(send_comm);
    auto* memory = net::object_cast<net::Memory>(mhandle);
    auto* tcp = connection == nullptr ? net::object_cast<net::TcpSendConnection>(send_comm) : nullptr;
    const bool known = connection != nullptr || tcp != nullptr;
    if (!known || request == nullptr || (memory == nullptr && mhandle != nullptr)) {
      return refuse("isend", "bad arguments");
    }
    const net::SendArguments send{.data = data, .size_bytes = size, .tag = tag, .memory = memory, .event = event};
    auto posted = tcp != nullptr ? tcp->post(send) : connection->post(send);
    if (!posted) return posted.error();
    *request = *posted != nullptr ? net::to_pointer(*posted) : nullptr;
    return ok();
  });
}

int irecv(void* recv_comm, int n, void** data, std::size_t* sizes, int* tags, void** mhandles, void** events,
          void** request) {
  return at_boundary("irecv", [&]() -> Result<void> {
    auto* connection = net::object_cast<net::ReceiveConnection>(recv_comm);
    auto* tcp = connection == nullptr ? net::object_cast<net::TcpReceiveConnection>(recv_comm) : nullptr;
    const bool complete = data != nullptr && sizes != nullptr && tags != nullptr && mhandles != nullptr;
    if ((connection == nullptr && tcp == nullptr) || request == nullptr || !complete)
      return refuse("irecv", "bad arguments");
    if (n < 1 || n > kMaxRecvs) return refuse("irecv", "a group has 1 to 8 receives");
    std::array<net::ReceivePart, kMaxRecvs> parts;
    for (int index = 0; index < n; ++index) {
      auto* memory = net::object_cast<net::Memory>(mhandles[index]);
      if (memory == nullptr && mhandles[index] != nullptr) return refuse("irecv", "this is no registered memory");
      parts[static_cast<std::size_t>(index)] = {.data = data[index],
                                                .size_bytes = sizes[index],
                                                .tag = tags[index],
                                                .memory = memory,
                                                .event = events != nullptr ? events[index] : nullptr};
    }
    const auto group = std::span(parts).first(static_cast<std::size_t>(n));
    auto posted = tcp != nullptr ? tcp->post(group) : connection->post(group);
    if (!posted) return posted.error();
    *request = *posted != nullptr ? net::to_pointer(*posted) : nullptr;
    return ok();
  });
}

int iflush(void* recv_comm, int n, void** data, int* sizes, void** mhandles, void** request) {
  return at_boundary("iflush", [&]() -> Result<void> {
    if (!is_receiver(recv_comm) || request == nullptr || n < 0 || n > kMaxRecvs)
      return refuse("iflush", "bad arguments");
    if (n > 0 && (data == nullptr || sizes == nullptr || mhandles == nullptr)) return refuse("iflush", "bad arguments");
    // One read is enough for a group: it pushes everything that the adapter has written to that GPU.
    void* flushed = nullptr;
    net::Memory* flushed_memory = nullptr;
    for (int part = 0; part < n; ++part) {
      if (sizes[part] == 0) continue;
      auto* memory = net::object_cast<net::Memory>(mhandles[part]);
      if (memory == nullptr) return refuse("iflush", "this is no registered memory");
      if (sizes[part] < 0 || !memory->covers(data[part], static_cast<std::size_t>(sizes[part]))) {
        return refuse("iflush", "this is not within the registered memory");
      }
      if (!memory->is_device()) continue;
      flushed = data[part];
      flushed_memory = memory;
    }
    auto* connection = net::object_cast<net::ReceiveConnection>(recv_comm);
    if (flushed_memory != nullptr && connection == nullptr) return refuse("iflush", "GPU memory over TCP");
    Result<net::Request*> posted = nullptr;
    if (flushed_memory != nullptr) posted = connection->flush(flushed, *flushed_memory);
    if (!posted) return posted.error();
    *request = *posted != nullptr ? net::to_pointer(*posted) : nullptr;
    return ok();
  });
}

int test(void* request, int* done, int* sizes) {
  return at_boundary("test", [&]() -> Result<void> {
    auto* posted = net::object_cast<net::Request>(request);
    if (posted == nullptr || done == nullptr) return refuse("test", "this is no request, or it was completed before");
    net::Endpoint& connection = *posted->connection;
    const net::Endpoint::Progress progress = connection.test(*posted, sizes);
    if (progress == net::Endpoint::Progress::kFailed) return connection.failure();
    *done = progress == net::Endpoint::Progress::kDone ? 1 : 0;
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
