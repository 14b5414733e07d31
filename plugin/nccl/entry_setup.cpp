// Entry points of the service side: init, properties, listen, connect, accept, close.
#include <algorithm>
#include <span>

#include "plugin/nccl/boundary.h"
#include "plugin/nccl/entry.h"
#include "plugin/nccl/process.h"
#include "plugin/net/listener.h"
#include "plugin/net/rdma/receive.h"
#include "plugin/net/rdma/send.h"
#include "plugin/net/tcp/tcp_receive.h"
#include "plugin/net/tcp/tcp_send.h"
#include "plugin/net/wire/ring.h"

namespace meshbed::nccl {
namespace {

static_assert(kHandleBytes == net::kHandleBytes);
static_assert(kMaxRecvs == net::kMaxGroup);
static_assert(kMaxRequests * kMaxRecvs == net::kRingEntries);

std::span<std::uint8_t, net::kHandleBytes> handle_bytes(void* handle) {
  return std::span<std::uint8_t, net::kHandleBytes>(static_cast<std::uint8_t*>(handle), net::kHandleBytes);
}

/// NCCL's structs have char* where const char* is meant; the strings live as long as the transport does.
char* text_of(const std::string& text) { return text.empty() ? nullptr : const_cast<char*>(text.c_str()); }

/// at_boundary() for what changes what this process has open.
template <typename Body>
int at_owners_boundary(const char* entry, const Body& body) {
  return at_boundary(entry, [&]() -> Result<void> {
    if (is_fork()) return refuse(entry, "called in a child (fork) of the process that it belongs to, which keeps it");
    return body();
  });
}

}  // namespace

int init(void** context, std::uint64_t comm_id, CommConfig* config, LogFunction log, ProfilerFunction profiler) {
  return at_boundary("init", [&]() -> Result<void> {
    send_log_to(log);
    if (context == nullptr) return refuse("init", "no place for the context");
    auto added = add_context({.comm = comm_id,
                              .traffic_class = config != nullptr ? config->trafficClass : kTrafficClassUndefined,
                              .profiler = profiler});
    if (!added) return added.error();
    *context = net::to_pointer(*added);
    return ok();
  });
}

int finalize(void* context) {
  return at_owners_boundary("finalize", [&]() -> Result<void> {
    auto* user = net::object_cast<net::Context>(context);
    if (user == nullptr) return refuse("finalize", "this is no context");
    return remove_context(user);
  });
}

int set_net_attr(void* context, NetAttr* attributes) {
  return at_boundary("setNetAttr", [&]() -> Result<void> {
    auto* user = net::object_cast<net::Context>(context);
    if (user == nullptr) return refuse("setNetAttr", "this is no context");
    if (attributes == nullptr) return refuse("setNetAttr", "no attributes");
    const auto side = [](const CommAttr& attr) {
      return net::HintState{.peers_max = attr.maxConcurrentPeers,
                            .peers_min = attr.minConcurrentPeers,
                            .flows_max = attr.maxFlowsPerPeer,
                            .flows_min = attr.minFlowsPerPeer};
    };
    const auto mask = [](std::uint32_t bits) {
      return bits == static_cast<std::uint32_t>(kAttributeUndefined) ? net::kUnknown : std::int64_t{bits};
    };
    user->note_hint({.send = side(attributes->sendCommAttr),
                     .receive = side(attributes->recvCommAttr),
                     .op = mask(attributes->op),
                     .algo = mask(attributes->algo),
                     .proto = mask(attributes->proto)});
    return ok();
  });
}

int init_shared(LogFunction log) { return init_shared_profiled(log, nullptr); }

int init_shared_profiled(LogFunction log, ProfilerFunction profiler) {
  return at_boundary("init", [&]() -> Result<void> {
    send_log_to(log);
    auto context = shared_process_context(profiler);
    if (!context) return context.error();
    return ok();
  });
}

void* shared_context() {
  net::Context* context = shared_process_context_if_any();
  return context != nullptr ? net::to_pointer(context) : nullptr;
}

int devices(int* count) {
  return at_boundary("devices", [&]() -> Result<void> {
    const net::Transport* opened = transport();
    if (opened == nullptr || count == nullptr) return refuse("devices", "called before init, or without a place");
    *count = static_cast<int>(opened->nics().size());
    return ok();
  });
}

int properties(int dev, PropertiesV12* props) {
  return at_boundary("getProperties", [&]() -> Result<void> {
    const net::Transport* opened = transport();
    if (opened == nullptr || props == nullptr) return refuse("getProperties", "called before init, or without a place");
    if (dev < 0 || static_cast<std::size_t>(dev) >= opened->nics().size()) {
      return refuse("getProperties", "there is no such device");
    }
    const net::Nic& nic = opened->nics()[static_cast<std::size_t>(dev)];
    PropertiesV12 result{};
    result.name = text_of(nic.device_name);
    result.pciPath = text_of(nic.pci_path);
    result.guid = nic.guid;
    // DMABUF without CUDA means that GPU memory must come with a descriptor, as in NCCL's own transport.
    const net::DeviceMemorySupport& gpu = opened->device_memory();
    result.ptrSupport =
        kPtrHost | (gpu.without_peer_memory.empty() ? kPtrCuda : 0) | (gpu.without_dma_buf.empty() ? kPtrDmaBuf : 0);
    // Registrations are shared between connections, but with 1 NCCL may also send more than the receive takes and
    // relies on the rest being cut off (so aws-ofi-nccl, nccl_ofi_sendrecv), which here is an error.
    result.regIsGlobal = 0;
    // 0: NCCL asks for flushes where the GPU needs them. 1 is for adapters that write around the GPU's own PCIe port.
    result.forceFlush = 0;
    result.speed = static_cast<int>(nic.rate_mbps);
    result.port = nic.port;
    result.latency = 1.0F;
    result.maxComms = nic.max_queue_pairs;
    result.maxRecvs = kMaxRecvs;
    result.netDeviceType = kNetDeviceHost;
    result.netDeviceVersion = 0;
    result.vProps.ndevs = 1;
    result.vProps.devs[0] = dev;
    result.maxP2pBytes = net::kMaxMessageBytes;
    result.maxCollBytes = net::kMaxMessageBytes;
    result.maxMultiRequestSize = 1;
    static_assert(kIdUndefined == -1);
    result.railId = nic.rail;
    result.planeId = nic.plane;
    *props = result;
    return ok();
  });
}

int listen(void* context, int dev, void* handle, void** listen_comm) {
  return at_owners_boundary("listen", [&]() -> Result<void> {
    auto* user = net::object_cast<net::Context>(context);
    if (user == nullptr || handle == nullptr || listen_comm == nullptr) return refuse("listen", "bad arguments");
    auto listener = user->transport.listen(*user, dev, handle_bytes(handle));
    if (!listener) return listener.error();
    *listen_comm = net::to_pointer(*listener);
    return ok();
  });
}

int connect(void* context, int dev, void* handle, void** send_comm, NetDeviceHandle** /*send_dev_comm*/) {
  return connect_with_class(context, dev, kTrafficClassUndefined, handle, send_comm);
}

int connect_with_class(void* context, int dev, int traffic_class, void* handle, void** send_comm) {
  return at_owners_boundary("connect", [&]() -> Result<void> {
    auto* user = net::object_cast<net::Context>(context);
    if (user == nullptr || handle == nullptr || send_comm == nullptr) return refuse("connect", "bad arguments");
    const int wanted = traffic_class != kTrafficClassUndefined ? traffic_class : user->settings.traffic_class;
    auto connection =
        user->transport.connect({.context = user, .dev = dev, .traffic_class = wanted}, handle_bytes(handle));
    if (!connection) return connection.error();
    *send_comm = *connection != nullptr ? net::to_pointer(*connection) : nullptr;
    return ok();
  });
}

int accept(void* listen_comm, void** recv_comm, NetDeviceHandle** /*recv_dev_comm*/) {
  return at_owners_boundary("accept", [&]() -> Result<void> {
    auto* listener = net::object_cast<net::Listener>(listen_comm);
    if (listener == nullptr || recv_comm == nullptr) return refuse("accept", "bad arguments");
    auto connection = listener->transport().accept(*listener);
    if (!connection) return connection.error();
    *recv_comm = *connection != nullptr ? net::to_pointer(*connection) : nullptr;
    return ok();
  });
}

int close_send(void* send_comm) {
  return at_owners_boundary("closeSend", [&]() -> Result<void> {
    if (send_comm == nullptr) return ok();  // what is left of a set-up that failed half-way
    net::Endpoint* connection = net::object_cast<net::SendConnection>(send_comm);
    if (connection == nullptr) connection = net::object_cast<net::TcpSendConnection>(send_comm);
    if (connection == nullptr) return refuse("closeSend", "this is no sending connection");
    transport()->close(connection);
    return ok();
  });
}

int close_recv(void* recv_comm) {
  return at_owners_boundary("closeRecv", [&]() -> Result<void> {
    if (recv_comm == nullptr) return ok();  // what is left of a set-up that failed half-way
    net::Endpoint* connection = net::object_cast<net::ReceiveConnection>(recv_comm);
    if (connection == nullptr) connection = net::object_cast<net::TcpReceiveConnection>(recv_comm);
    if (connection == nullptr) return refuse("closeRecv", "this is no receiving connection");
    transport()->close(connection);
    return ok();
  });
}

int close_listen(void* listen_comm) {
  return at_owners_boundary("closeListen", [&]() -> Result<void> {
    if (listen_comm == nullptr) return ok();  // what is left of a set-up that failed half-way
    auto* listener = net::object_cast<net::Listener>(listen_comm);
    if (listener == nullptr) return refuse("closeListen", "this is no listener");
    listener->transport().close(listener);
    return ok();
  });
}

int listen_shared(int dev, void* handle, void** listen_comm) {
  return listen(shared_context(), dev, handle, listen_comm);
}

int connect_shared(int dev, void* handle, void** send_comm, NetDeviceHandle** send_dev_comm) {
  return connect(shared_context(), dev, handle, send_comm, send_dev_comm);
}

}  // namespace meshbed::nccl
