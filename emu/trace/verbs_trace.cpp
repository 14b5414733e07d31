#include "emu/trace/verbs_trace.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <deque>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "plugin/base/deadline.h"

namespace {

using meshbed::now_ns;

struct Pending {
  std::uint64_t wr_id;
  std::size_t message;
};

struct TracedQp {
  std::uint32_t index = 0;
  meshbed_traced_qp facts{};
  std::uint32_t posted = 0;
  std::deque<Pending> pending;  // sends posted and not known to be complete, the oldest first
};

struct Device {
  ibv_context_ops real{};
};

/// Everything that is known, guarded by `mutex`.
struct Trace {
  std::mutex mutex;
  std::deque<TracedQp> queue_pairs;
  std::unordered_map<const ibv_qp*, TracedQp*> by_object;
  std::unordered_map<std::uint64_t, TracedQp*> by_number;  // of its context
  std::unordered_map<const ibv_context*, Device> devices;
  std::vector<meshbed_traced_message> messages;
};

// Never destroyed: the plugin's threads may outlive static objects.
Trace& trace() {
  static Trace& the = *new Trace;
  return the;
}

/// rdma-core's own function; nullptr if there is none, which is logged once.
template <typename Function>
Function real(const char* name, const char* version) {
  // The one that the plugin itself needs: loaded with it, under the name that rdma-core gives it.
  static void* const library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
  void* const symbol = library != nullptr ? dlvsym(library, name, version) : nullptr;
  if (symbol == nullptr) {
    std::fprintf(stderr, "meshbed: libibverbs.so.1 has no %s@%s: %s\n", name, version, dlerror());
  }
  return reinterpret_cast<Function>(symbol);
}

std::uint64_t number_key(const ibv_context* context, std::uint32_t number) {
  return reinterpret_cast<std::uintptr_t>(context) * 0x9e3779b97f4a7c15U ^ number;
}

/// The queue pair's record; made at its first use.
TracedQp& record_of(ibv_qp* qp) {
  TracedQp*& known = trace().by_object[qp];
  if (known == nullptr) {
    known = &trace().queue_pairs.emplace_back();
    known->index = static_cast<std::uint32_t>(trace().queue_pairs.size() - 1);
    std::snprintf(known->facts.device, sizeof known->facts.device, "%s", qp->context->device->name);
    known->facts.number = qp->qp_num;
    trace().by_number[number_key(qp->context, qp->qp_num)] = known;
  }
  return *known;
}

std::uint64_t bytes_of(const ibv_send_wr& work) {
  std::uint64_t bytes = 0;
  for (int piece = 0; piece < work.num_sge; ++piece) bytes += work.sg_list[piece].length;
  return bytes;
}

std::uint32_t immediate_of(const ibv_send_wr& work) {
  const bool has_one = work.opcode == IBV_WR_RDMA_WRITE_WITH_IMM || work.opcode == IBV_WR_SEND_WITH_IMM;
  return has_one ? ntohl(work.imm_data) : 0;
}

int traced_post_send(ibv_qp* qp, ibv_send_wr* work, ibv_send_wr** bad) {
  // Held while the real call runs: a completion must not be seen before its work request.
  const std::lock_guard lock(trace().mutex);
  const auto device = trace().devices.find(qp->context);
  TracedQp& queue_pair = record_of(qp);
  const std::int64_t now = now_ns();
  for (const ibv_send_wr* each = work; each != nullptr; each = each->next) {
    queue_pair.pending.push_back({each->wr_id, trace().messages.size()});
    trace().messages.push_back({.qp = queue_pair.index,
                                .opcode = static_cast<std::uint32_t>(each->opcode),
                                .status = UINT32_MAX,
                                .sequence = queue_pair.posted++,
                                .bytes = bytes_of(*each),
                                .immediate = immediate_of(*each),
                                .posted_ns = now,
                                .completed_ns = -1});
  }
  const int error = device->second.real.post_send(qp, work, bad);
  if (error == 0) return 0;
  for (const ibv_send_wr* each = *bad; each != nullptr; each = each->next) {  // refused: this one and all behind it
    queue_pair.pending.pop_back();
    trace().messages.pop_back();
    --queue_pair.posted;
  }
  return error;
}

/// A completion is also that of all unsignalled work before it (ibv_post_send(3), IBV_SEND_SIGNALED).
void complete(const ibv_context* context, const ibv_wc& completion, std::int64_t now) {
  const auto found = trace().by_number.find(number_key(context, completion.qp_num));
  if (found == trace().by_number.end()) return;
  auto& pending = found->second->pending;
  const auto own =
      std::find_if(pending.begin(), pending.end(), [&](const Pending& each) { return each.wr_id == completion.wr_id; });
  if (own == pending.end()) return;  // of a receive: opcodes of failed completions are undefined
  while (true) {
    const bool last = pending.front().wr_id == completion.wr_id;
    meshbed_traced_message& message = trace().messages[pending.front().message];
    message.completed_ns = now;
    message.status = last ? static_cast<std::uint32_t>(completion.status) : std::uint32_t{IBV_WC_SUCCESS};
    pending.pop_front();
    if (last) return;
  }
}

int traced_poll_cq(ibv_cq* cq, int count, ibv_wc* completions) {
  const std::lock_guard lock(trace().mutex);
  const auto device = trace().devices.find(cq->context);
  const int taken = device->second.real.poll_cq(cq, count, completions);
  if (taken <= 0) return taken;
  const std::int64_t now = now_ns();
  for (int each = 0; each < taken; ++each) {
    const bool receive = completions[each].status == IBV_WC_SUCCESS && (completions[each].opcode & IBV_WC_RECV) != 0;
    if (!receive) complete(cq->context, completions[each], now);
  }
  return taken;
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) ibv_context* ibv_open_device(ibv_device* device) {
  static const auto open = real<ibv_context* (*)(ibv_device*)>("ibv_open_device", "IBVERBS_1.1");
  if (open == nullptr) {
    errno = ENOSYS;
    return nullptr;
  }
  ibv_context* context = open(device);
  if (context == nullptr) return nullptr;
  const std::lock_guard lock(trace().mutex);
  trace().devices[context].real = context->ops;
  context->ops.post_send = traced_post_send;
  context->ops.poll_cq = traced_poll_cq;
  return context;
}

__attribute__((visibility("default"))) int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
  static const auto modify = real<int (*)(ibv_qp*, ibv_qp_attr*, int)>("ibv_modify_qp", "IBVERBS_1.1");
  static const auto query = real<int (*)(ibv_context*, std::uint8_t, int, ibv_gid*)>("ibv_query_gid", "IBVERBS_1.1");
  if (modify == nullptr || query == nullptr) return ENOSYS;
  const int error = modify(qp, attr, mask);
  if (error != 0 || (mask & IBV_QP_AV) == 0) return error;
  ibv_gid own{};
  query(qp->context, attr->ah_attr.port_num, attr->ah_attr.grh.sgid_index, &own);
  const std::lock_guard lock(trace().mutex);
  meshbed_traced_qp& facts = record_of(qp).facts;
  facts.port = attr->ah_attr.port_num;
  facts.remote_number = attr->dest_qp_num;
  std::memcpy(facts.gid, own.raw, sizeof facts.gid);
  std::memcpy(facts.remote_gid, attr->ah_attr.grh.dgid.raw, sizeof facts.remote_gid);
  return 0;
}

__attribute__((visibility("default"))) int ibv_destroy_qp(ibv_qp* qp) {
  static const auto destroy = real<int (*)(ibv_qp*)>("ibv_destroy_qp", "IBVERBS_1.1");
  if (destroy == nullptr) return ENOSYS;
  ibv_context* const context = qp->context;
  const std::uint32_t number = qp->qp_num;
  // Held while the real call runs: the next queue pair may get the same address and number.
  const std::lock_guard lock(trace().mutex);
  const int error = destroy(qp);
  if (error != 0) return error;
  trace().by_object.erase(qp);
  trace().by_number.erase(number_key(context, number));
  return 0;
}

size_t meshbed_verbs_trace_qps(meshbed_traced_qp* out, size_t room) {
  const std::lock_guard lock(trace().mutex);
  const auto& all = trace().queue_pairs;
  for (std::size_t each = 0; each < std::min(room, all.size()); ++each) out[each] = all[each].facts;
  return all.size();
}

size_t meshbed_verbs_trace_messages(meshbed_traced_message* out, size_t room) {
  const std::lock_guard lock(trace().mutex);
  std::copy_n(trace().messages.begin(), std::min(room, trace().messages.size()), out);
  return trace().messages.size();
}

}  // extern "C"
