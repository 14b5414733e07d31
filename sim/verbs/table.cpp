// The table that the drop-in calls, filled with this room's functions. Handles become objects here, and only those of
// the calling process: those of other processes, and stale ones, are EINVAL.

#include <cerrno>

#include "models/lan/bond.h"
#include "plugin/base/log.h"
#include "sim/host/identity.h"
#include "sim/verbs/system.h"

namespace meshbed::sim::verbs {
namespace {

const Process& owner_of(const Context& context) { return *context.process; }
template <typename Object>
const Process& owner_of(const Object& object) {
  return *object.context->process;
}

/// The calling process's object, or nullptr.
template <typename Object>
Object* own(const HandleTable<Object>& table, std::uint32_t handle) {
  Object* object = table.find(handle);
  return object != nullptr && &owner_of(*object) == World::current_process() ? object : nullptr;
}

/// Calls function(object) where the handle is the caller's own.
template <typename Object, typename Function>
int with(const HandleTable<Object>& table, std::uint32_t handle, Function function) {
  Object* object = own(table, handle);
  return object != nullptr ? function(*object) : EINVAL;
}

const std::vector<models::Nic>& own_nics() {
  const auto node = static_cast<std::size_t>(World::current_process()->node);
  return system().world.cluster().nodes[node].nics;
}

int own_devices() {
  return static_cast<int>(models::rdma_devices(system().world.node_at(World::current_process()->node)));
}

/// Calls function(port) where the calling process has that device.
template <typename Function>
int with_device(int device, Function function) {
  if (device < 0 || device >= own_devices()) return ENODEV;
  return function(models::PortRef{World::current_process()->node, device});
}

int dereg_own_mr(std::uint32_t key) {
  const MemoryRegion* region = system().memory.find(key);
  if (region == nullptr || &owner_of(*region->domain) != World::current_process()) return EINVAL;
  return dereg_mr(system(), key);
}

int create_own_qp(BackendQpInit* init, std::uint32_t* number) {
  return with(system().domains, init->pd,
              [&](ProtectionDomain& domain) { return create_qp(system(), *domain.context, domain, *init, *number); });
}

void log_unsupported(const char* verb) { MESHBED_WARN("%s is not implemented in the simulator: EOPNOTSUPP", verb); }

VerbsBackend make_backend() {
  using U32 = std::uint32_t;
  VerbsBackend table{};
  table.version = kBackendVersion;
  table.size = sizeof(VerbsBackend);

  table.device_count = [] { return World::current_process() != nullptr ? own_devices() : 0; };
  table.device_name = [](int device) { return own_nics()[static_cast<std::size_t>(device)].device.c_str(); };
  table.device_guid = [](int device) {
    return __builtin_bswap64(node_guid_of({World::current_process()->node, device}));
  };
  table.query_device = [](int device, ibv_device_attr* attr) {
    return with_device(device, [&](models::PortRef port) { return query_device(system(), port, *attr); });
  };
  table.query_port = [](int device, std::uint8_t number, ibv_port_attr* attr) {
    return with_device(device, [&](models::PortRef port) { return query_port(system(), port, number, *attr); });
  };
  table.query_gid = [](int device, std::uint8_t number, int index, ibv_gid_entry* entry) {
    return with_device(device, [&](models::PortRef port) { return query_gid(system(), port, number, index, *entry); });
  };
  table.open_device = [](int device, U32* context) {
    return open_device(system(), *World::current_process(), device, *context);
  };
  table.close_device = [](U32 context) {
    return with(system().contexts, context, [](Context& object) { return close_device(system(), object); });
  };
  table.get_async_event = [](U32 context, bool block, BackendAsyncEvent* event) {
    return with(system().contexts, context,
                [&](Context&) { return get_async_event(system(), context, block, *event); });
  };
  table.async_fd = [](U32 context) {
    const Context* object = own(system().contexts, context);
    return object != nullptr ? object->async_fd : -1;
  };

  table.alloc_pd = [](U32 context, U32* pd) {
    return with(system().contexts, context, [&](Context& object) { return alloc_pd(system(), object, *pd); });
  };
  table.dealloc_pd = [](U32 pd) {
    return with(system().domains, pd, [](ProtectionDomain& object) { return dealloc_pd(system(), object); });
  };
  table.reg_mr = [](U32 pd, std::uint64_t address, std::uint64_t length, std::uint64_t iova, unsigned access, U32* lkey,
                    U32* rkey) {
    const int error = with(system().domains, pd, [&](ProtectionDomain& object) {
      return reg_mr(system(), object, address, length, iova, access, *lkey);
    });
    if (error == 0) *rkey = *lkey;
    return error;
  };
  table.reg_dmabuf_mr = [](U32 pd, std::uint64_t offset, std::uint64_t length, std::uint64_t iova, int fd,
                           unsigned access, U32* lkey, U32* rkey) {
    const int error = with(system().domains, pd, [&](ProtectionDomain& object) {
      return reg_dmabuf_mr(system(), object, {.offset = offset, .length = length, .iova = iova, .fd = fd}, access,
                           *lkey);
    });
    if (error == 0) *rkey = *lkey;
    return error;
  };
  table.dereg_mr = dereg_own_mr;
  table.create_channel = [](U32 context, U32* channel, int* fd) {
    return with(system().contexts, context,
                [&](Context& object) { return create_channel(system(), object, *channel, *fd); });
  };
  table.destroy_channel = [](U32 channel) {
    return with(system().channels, channel, [](Channel& object) { return destroy_channel(system(), object); });
  };
  table.get_cq_event = [](U32 channel, U32* cq) {
    return with(system().channels, channel, [&](Channel&) { return get_cq_event(system(), channel, *cq); });
  };
  table.create_cq = [](U32 context, int cqe, U32 channel, U32* cq, int* granted) {
    return with(system().contexts, context,
                [&](Context& object) { return create_cq(system(), object, cqe, channel, *cq, *granted); });
  };
  table.resize_cq = [](U32 cq, int cqe) {
    return with(system().completion_queues, cq, [&](CompletionQueue& object) { return resize_cq(object, cqe); });
  };
  table.destroy_cq = [](U32 cq) {
    return with(system().completion_queues, cq, [](CompletionQueue& object) { return destroy_cq(system(), object); });
  };
  table.req_notify_cq = [](U32 cq, int solicited_only) {
    return with(system().completion_queues, cq,
                [&](CompletionQueue& object) { return req_notify_cq(object, solicited_only != 0); });
  };
  // The hot path trusts its handle to be the caller's own: the drop-in holds it in an object of that process.
  table.poll_cq = [](U32 cq, int count, ibv_wc* completions) {
    const int found = poll_cq(system(), cq, count, completions);
    if (found > 0) system().world.spend(found * system().cost.completion_ps);
    return found;
  };

  table.create_qp = create_own_qp;
  table.modify_qp = [](U32 number, const ibv_qp_attr* attr, int mask) {
    return modify_qp(system(), *World::current_process(), number, *attr, mask);
  };
  table.query_qp = [](U32 number, ibv_qp_attr* attr, ibv_qp_init_attr* init) {
    return with(system().queue_pairs, number, [&](QueuePair& object) { return query_qp(object, *attr, *init); });
  };
  table.destroy_qp = [](U32 number) {
    return with(system().queue_pairs, number, [](QueuePair& object) { return destroy_qp(system(), object); });
  };
  table.post_send = [](U32 number, const BackendSendWr* wr) {
    system().world.spend(system().cost.post_send_ps);
    QueuePair* qp = system().queue_pairs.find(number);
    return qp != nullptr ? post_send(system(), *qp, *wr) : EINVAL;
  };
  table.post_recv = [](U32 number, const BackendRecvWr* wr) {
    system().world.spend(system().cost.post_recv_ps);
    QueuePair* qp = system().queue_pairs.find(number);
    return qp != nullptr ? post_recv(system(), *qp, *wr) : EINVAL;
  };
  table.unsupported = log_unsupported;
  return table;
}

}  // namespace

const VerbsBackend& backend_table() {
  static const VerbsBackend table = make_backend();
  return table;
}

}  // namespace meshbed::sim::verbs
