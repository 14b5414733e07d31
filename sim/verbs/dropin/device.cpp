// Devices and what one can ask of them: ibv_get_device_list(3), ibv_query_device(3), ibv_query_port(3),
// ibv_query_gid(3).

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "sim/verbs/dropin/objects.h"
#include "sim/verbs/dropin/table.h"

namespace meshbed::dropin {
namespace {

Device* make_device(int index) {
  auto* device = new Device;
  device->index = index;
  device->references = 1;
  ibv_device& base = device->base;
  base.node_type = IBV_NODE_CA;
  base.transport_type = IBV_TRANSPORT_IB;
  std::snprintf(base.name, sizeof(base.name), "%s", backend().device_name(index));
  std::snprintf(base.dev_name, sizeof(base.dev_name), "uverbs%d", index);
  std::snprintf(base.dev_path, sizeof(base.dev_path), "/sys/class/infiniband_verbs/uverbs%d", index);
  std::snprintf(base.ibdev_path, sizeof(base.ibdev_path), "/sys/class/infiniband/%s", base.name);
  return device;
}

void release(Device* device) {
  if (--device->references == 0) delete device;
}

int index_of(const ibv_device* device) { return reinterpret_cast<const Device*>(device)->index; }

int query_gid(ibv_context* context, std::uint32_t port, std::uint32_t index, ibv_gid_entry* entry) {
  if (port > UINT8_MAX || index > INT32_MAX) return EINVAL;
  return backend().query_gid(context_of(context).device->index, static_cast<std::uint8_t>(port),
                             static_cast<int>(index), entry);
}

}  // namespace

Context& context_of(ibv_context* context) {
  auto* bytes = reinterpret_cast<char*>(context);
  return *reinterpret_cast<Context*>(bytes - offsetof(verbs_context, context) - offsetof(Context, verbs));
}

int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attr, std::size_t size) {
  ibv_port_attr answer{};
  if (const int error = backend().query_port(context_of(context).device->index, port, &answer)) return error;
  std::memset(attr, 0, size);
  std::memcpy(attr, &answer, std::min(size, sizeof(answer)));
  return 0;
}

int query_device_ex(ibv_context* context, const ibv_query_device_ex_input*, ibv_device_attr_ex* attr,
                    std::size_t size) {
  if (size < sizeof(attr->orig_attr)) return EINVAL;
  ibv_device_attr_ex answer{};
  if (const int error = backend().query_device(context_of(context).device->index, &answer.orig_attr)) return error;
  answer.device_cap_flags_ex = answer.orig_attr.device_cap_flags;
  answer.phys_port_cnt_ex = answer.orig_attr.phys_port_cnt;
  std::memset(attr, 0, size);
  std::memcpy(attr, &answer, std::min(size, sizeof(answer)));
  return 0;
}

}  // namespace meshbed::dropin

using namespace meshbed::dropin;

MESHBED_VERB ibv_device** ibv_get_device_list(int* count) {
  if (count != nullptr) *count = 0;
  if (g_backend == nullptr) return null_with<ibv_device*>(ENOSYS);  // as without kernel support
  const int devices = backend().device_count();
  auto** list = new ibv_device*[static_cast<std::size_t>(devices) + 1];
  for (int index = 0; index < devices; ++index) list[index] = &make_device(index)->base;
  list[devices] = nullptr;
  if (count != nullptr) *count = devices;
  return list;
}

MESHBED_VERB void ibv_free_device_list(ibv_device** list) {
  for (ibv_device** entry = list; *entry != nullptr; ++entry) release(reinterpret_cast<Device*>(*entry));
  delete[] list;
}

MESHBED_VERB const char* ibv_get_device_name(ibv_device* device) { return device->name; }
MESHBED_VERB __be64 ibv_get_device_guid(ibv_device* device) { return backend().device_guid(index_of(device)); }
MESHBED_VERB int ibv_get_device_index(ibv_device* device) { return index_of(device); }

MESHBED_VERB ibv_context* ibv_open_device(ibv_device* device) {
  std::uint32_t handle = 0;
  if (const int error = backend().open_device(index_of(device), &handle)) return null_with<ibv_context>(error);
  auto* context = new Context;
  context->device = reinterpret_cast<Device*>(device);
  ++context->device->references;
  context->handle = handle;
  refuse_the_rest(context->verbs);
  context->verbs.sz = sizeof(verbs_context);
  context->verbs.query_port = query_port;
  context->verbs.query_device_ex = query_device_ex;
  context->verbs.create_qp_ex = create_qp_ex;
  ibv_context& base = context->verbs.context;
  base.device = device;
  base.abi_compat = __VERBS_ABI_IS_EXTENDED;
  base.num_comp_vectors = 1;
  base.cmd_fd = -1;  // there is no kernel behind it
  base.async_fd = backend().async_fd(handle);
  base.ops.post_send = post_send;
  base.ops.post_recv = post_recv;
  base.ops.poll_cq = poll_cq;
  base.ops.req_notify_cq = req_notify_cq;
  return &base;
}

MESHBED_VERB int ibv_close_device(ibv_context* context) {
  Context& object = context_of(context);
  if (const int error = backend().close_device(object.handle)) return minus_one_with(error);
  release(object.device);
  delete &object;
  return 0;
}

MESHBED_VERB int ibv_query_device(ibv_context* context, ibv_device_attr* attr) {
  return backend().query_device(context_of(context).device->index, attr);
}

// The struct of old programs ends before port_cap_flags2; new ones come through verbs_context::query_port.
MESHBED_VERB int ibv_query_port(ibv_context* context, std::uint8_t port, _compat_ibv_port_attr* attr) {
  return query_port(context, port, reinterpret_cast<ibv_port_attr*>(attr), offsetof(ibv_port_attr, port_cap_flags2));
}

// An empty entry reads as the zero GID here, as rdma-core keeps it for old programs.
MESHBED_VERB int ibv_query_gid(ibv_context* context, std::uint8_t port, int index, ibv_gid* gid) {
  ibv_gid_entry entry{};
  const int error = index < 0 ? EINVAL : query_gid(context, port, static_cast<std::uint32_t>(index), &entry);
  if (error != 0 && error != ENODATA) return minus_one_with(error);
  *gid = error == ENODATA ? ibv_gid{} : entry.gid;
  return 0;
}

MESHBED_VERB int _ibv_query_gid_ex(ibv_context* context, std::uint32_t port, std::uint32_t index, ibv_gid_entry* entry,
                                   std::uint32_t flags, std::size_t size) {
  if (flags != 0) return EINVAL;  // Linux uverbs_get_flags32: none are known
  ibv_gid_entry answer{};
  if (const int error = query_gid(context, port, index, &answer)) return error;
  std::memset(static_cast<void*>(entry), 0, size);
  std::memcpy(static_cast<void*>(entry), &answer, std::min(size, sizeof(answer)));
  return 0;
}

MESHBED_VERB ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries, std::size_t count_max,
                                          std::uint32_t flags, std::size_t size) {
  if (flags != 0 || count_max == 0) return -EINVAL;
  ibv_device_attr device{};
  if (const int error = ibv_query_device(context, &device)) return -error;
  std::size_t count = 0;
  for (std::uint8_t port = 1; port <= device.phys_port_cnt; ++port) {
    ibv_port_attr attr{};
    if (const int error = query_port(context, port, &attr, sizeof(attr))) return -error;
    for (int index = 0; index < attr.gid_tbl_len; ++index) {
      ibv_gid_entry answer{};
      const int error = query_gid(context, port, static_cast<std::uint32_t>(index), &answer);
      if (error == ENODATA) continue;
      if (error != 0) return -error;
      if (count == count_max) return -EINVAL;
      char* slot = reinterpret_cast<char*>(entries) + count++ * size;
      std::memset(slot, 0, size);
      std::memcpy(slot, &answer, std::min(size, sizeof(answer)));
    }
  }
  return static_cast<ssize_t>(count);
}

// RoCE ports have one partition key, the default one.
constexpr __be16 kDefaultPkey = 0xffff;

MESHBED_VERB int ibv_query_pkey(ibv_context* context, std::uint8_t port, int index, __be16* pkey) {
  ibv_port_attr attr{};
  if (const int error = query_port(context, port, &attr, sizeof(attr))) return minus_one_with(error);
  if (index < 0 || index >= attr.pkey_tbl_len) return minus_one_with(EINVAL);
  *pkey = kDefaultPkey;
  return 0;
}

MESHBED_VERB int ibv_get_pkey_index(ibv_context* context, std::uint8_t port, __be16 pkey) {
  ibv_port_attr attr{};
  if (const int error = query_port(context, port, &attr, sizeof(attr))) return minus_one_with(error);
  return pkey == kDefaultPkey ? 0 : minus_one_with(ENOENT);
}
