#include "cli/bench/cost/null_wire.h"

#include <endian.h>
#include <infiniband/verbs.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <deque>
#include <iterator>
#include <map>
#include <mutex>
#include <vector>

#undef ibv_query_port
#undef ibv_reg_mr

#if defined(__SANITIZE_THREAD__)
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
void AnnotateIgnoreSyncBegin(const char* file, int line);
void AnnotateIgnoreSyncEnd(const char* file, int line);
}
#endif

#define NULL_WIRE_VERB extern "C" __attribute__((visibility("default")))

namespace {

constexpr int kQueueDepthMost = 4096;
constexpr int kAddresses = std::size(meshbed::cost::kNullAddresses);

/// A ring buffer: entries are numbered without limit and stored at their number modulo the size, a power of two.
template <typename T>
class Ring {
 public:
  explicit Ring(std::size_t entries) : entries_(std::bit_ceil(std::max<std::size_t>(entries, 1))) {}
  bool empty() const { return first_ == next_; }
  bool full() const { return next_ - first_ == entries_.size(); }
  void push(const T& entry) { entries_[next_++ & (entries_.size() - 1)] = entry; }
  const T& pop() { return entries_[first_++ & (entries_.size() - 1)]; }

 private:
  std::vector<T> entries_;
  std::size_t first_ = 0, next_ = 0;
};

struct Queue {
  ibv_cq base{};
  Ring<ibv_wc> completions;
  bool armed = false;
};

/// Its descriptor counts the announcements.
struct Channel {
  ibv_comp_channel base{};
  std::deque<ibv_cq*> announced;
};

struct Pair {
  ibv_qp base{};
  Ring<std::uint64_t> receives;  // their wr_ids
  Pair* peer = nullptr;          // from RTR on
};

std::mutex g_mutex;  // guards all objects and the variables below
std::map<std::uint32_t, Pair*> g_pairs;
std::uint32_t g_next_number = 1;
std::size_t g_copied_bytes_most = SIZE_MAX;  // of each piece of memory that a write names
bool g_silent = false;                       // channels announce nothing

/// While it exists, the thread acts as the adapter: ThreadSanitizer ignores its accesses to the users' memory, and does
/// not treat its lock as an ordering between callers, because a real adapter would give none.
class AsAdapter {
 public:
#if defined(__SANITIZE_THREAD__)
  AsAdapter() {
    AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  ~AsAdapter() {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
    AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
  }
#else
  AsAdapter() {}
#endif
  AsAdapter(const AsAdapter&) = delete;
  AsAdapter& operator=(const AsAdapter&) = delete;
};

/// Copies in the order of addresses, as adapters write: a reader that sees a word also sees all words before it.
void copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  using Word = std::uint64_t;
  std::size_t at = 0;
  if (reinterpret_cast<std::uintptr_t>(to) % sizeof(Word) == 0) {
    for (; at + sizeof(Word) <= bytes; at += sizeof(Word)) {
      Word word;
      std::memcpy(&word, from + at, sizeof word);
      std::atomic_ref(*reinterpret_cast<Word*>(to + at)).store(word, std::memory_order_release);
    }
  }
  for (; at < bytes; ++at) std::atomic_ref(to[at]).store(from[at], std::memory_order_release);
}

Queue& queue_of(ibv_cq* cq) { return *reinterpret_cast<Queue*>(cq); }
Channel& channel_of(ibv_comp_channel* channel) { return *reinterpret_cast<Channel*>(channel); }
Pair& pair_of(ibv_qp* qp) { return *reinterpret_cast<Pair*>(qp); }

template <typename Pointer>
Pointer* null_with(int error) {
  errno = error;
  return nullptr;
}

void announce(Queue& queue) {
  queue.armed = false;
  channel_of(queue.base.channel).announced.push_back(&queue.base);
  // The descriptor only counts, and its limit exceeds the number of queues.
  ::eventfd_write(queue.base.channel->fd, 1);
}

void complete(Queue& queue, const ibv_wc& completion) {
  queue.completions.push(completion);
  if (queue.armed && !g_silent) announce(queue);
}

/// One write. Returns an errno value on failure.
int write(Pair& pair, const ibv_send_wr& work) {
  if (work.opcode != IBV_WR_RDMA_WRITE && work.opcode != IBV_WR_RDMA_WRITE_WITH_IMM) return EOPNOTSUPP;
  if (pair.base.state != IBV_QPS_RTS || pair.peer == nullptr) return EINVAL;
  const bool signalled = (work.send_flags & IBV_SEND_SIGNALED) != 0;
  const bool immediate = work.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  Queue& own = queue_of(pair.base.send_cq);
  Queue& other = queue_of(pair.peer->base.recv_cq);
  if ((signalled && own.completions.full()) || (immediate && other.completions.full())) return ENOMEM;
  if (immediate && pair.peer->receives.empty()) return ENOMEM;  // there is no retransmission
  auto* to = reinterpret_cast<std::byte*>(work.wr.rdma.remote_addr);
  std::uint32_t bytes = 0;
  for (int piece = 0; piece < work.num_sge; ++piece) {
    const ibv_sge& from = work.sg_list[piece];
    copy(to + bytes, reinterpret_cast<const std::byte*>(from.addr),
         std::min<std::size_t>(from.length, g_copied_bytes_most));
    bytes += from.length;
  }
  ibv_wc completion{};
  completion.byte_len = bytes;
  if (immediate) {
    completion.wr_id = pair.peer->receives.pop();
    completion.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
    completion.imm_data = work.imm_data;
    completion.qp_num = pair.peer->base.qp_num;
    completion.wc_flags = IBV_WC_WITH_IMM;
    complete(other, completion);
  }
  if (signalled) {
    completion.wr_id = work.wr_id;
    completion.opcode = IBV_WC_RDMA_WRITE;
    completion.qp_num = pair.base.qp_num;
    completion.wc_flags = 0;
    complete(own, completion);
  }
  return 0;
}

}  // namespace

extern "C" {

static int meshbed_null_wire_post_send(ibv_qp* qp, ibv_send_wr* work, ibv_send_wr** refused) {
  const AsAdapter adapter;
  const std::lock_guard lock(g_mutex);
  for (; work != nullptr; work = work->next) {
    if (const int error = write(pair_of(qp), *work)) {
      *refused = work;
      return error;
    }
  }
  return 0;
}

static int meshbed_null_wire_post_recv(ibv_qp* qp, ibv_recv_wr* work, ibv_recv_wr** refused) {
  const AsAdapter adapter;
  const std::lock_guard lock(g_mutex);
  for (; work != nullptr; work = work->next) {
    if (pair_of(qp).receives.full()) {
      *refused = work;
      return ENOMEM;
    }
    pair_of(qp).receives.push(work->wr_id);
  }
  return 0;
}

static int meshbed_null_wire_poll_cq(ibv_cq* cq, int most, ibv_wc* completions) {
  const AsAdapter adapter;
  const std::lock_guard lock(g_mutex);
  int count = 0;
  for (; count < most && !queue_of(cq).completions.empty(); ++count) {
    completions[count] = queue_of(cq).completions.pop();
  }
  return count;
}

static int meshbed_null_wire_req_notify_cq(ibv_cq* cq, int) {
  if (cq->channel == nullptr) return EINVAL;
  const std::lock_guard lock(g_mutex);
  queue_of(cq).armed = true;
  return 0;
}

}  // extern "C"

NULL_WIRE_VERB void meshbed_null_wire_copy_at_most(std::size_t bytes) {
  const std::lock_guard lock(g_mutex);
  g_copied_bytes_most = bytes;
}

NULL_WIRE_VERB void meshbed_null_wire_be_silent(bool silent) {
  const std::lock_guard lock(g_mutex);
  g_silent = silent;
  if (silent) return;
  for (const auto& [number, pair] : g_pairs) {
    for (Queue* queue : {&queue_of(pair->base.send_cq), &queue_of(pair->base.recv_cq)}) {
      if (queue->armed && !queue->completions.empty()) announce(*queue);
    }
  }
}

// ---- the device

NULL_WIRE_VERB ibv_device** ibv_get_device_list(int* count) {
  auto* device = new ibv_device{};
  device->node_type = IBV_NODE_CA;
  device->transport_type = IBV_TRANSPORT_IB;
  std::strcpy(device->name, "null0");
  if (count != nullptr) *count = 1;
  return new ibv_device* [2] { device, nullptr };
}

/// The device itself goes with its context: a list is freed while it is open.
NULL_WIRE_VERB void ibv_free_device_list(ibv_device** list) { delete[] list; }

NULL_WIRE_VERB const char* ibv_get_device_name(ibv_device* device) { return device->name; }

NULL_WIRE_VERB ibv_context* ibv_open_device(ibv_device* device) {
  auto* context = new ibv_context{};
  context->device = device;
  context->ops.post_send = meshbed_null_wire_post_send;
  context->ops.post_recv = meshbed_null_wire_post_recv;
  context->ops.poll_cq = meshbed_null_wire_poll_cq;
  context->ops.req_notify_cq = meshbed_null_wire_req_notify_cq;
  context->cmd_fd = -1;
  context->async_fd = ::eventfd(0, EFD_CLOEXEC);  // no asynchronous events occur
  context->num_comp_vectors = 1;
  return context;
}

NULL_WIRE_VERB int ibv_close_device(ibv_context* context) {
  ::close(context->async_fd);
  delete context->device;
  delete context;
  return 0;
}

NULL_WIRE_VERB int ibv_query_device(ibv_context*, ibv_device_attr* attr) {
  *attr = {};
  attr->sys_image_guid = htobe64(1);
  attr->max_qp = 1024;
  attr->max_qp_wr = kQueueDepthMost;
  attr->max_sge = 1;
  attr->max_cqe = 2 * kQueueDepthMost;
  attr->phys_port_cnt = 1;
  return 0;
}

NULL_WIRE_VERB int ibv_query_port(ibv_context*, std::uint8_t port, _compat_ibv_port_attr* attr) {
  if (port != 1) return EINVAL;
  // The struct of old programs ends before port_cap_flags2; verbs.h has cleared what follows.
  auto& answer = *reinterpret_cast<ibv_port_attr*>(attr);
  answer.state = IBV_PORT_ACTIVE;
  answer.max_mtu = answer.active_mtu = IBV_MTU_4096;
  answer.gid_tbl_len = kAddresses;
  answer.max_msg_sz = 1U << 30U;
  answer.active_width = 2;   // 4 lanes
  answer.active_speed = 32;  // of 25 Gb/s
  answer.link_layer = IBV_LINK_LAYER_ETHERNET;
  return 0;
}

/// IPv4-mapped.
NULL_WIRE_VERB int ibv_query_gid(ibv_context*, std::uint8_t port, int index, ibv_gid* gid) {
  if (port != 1 || index < 0 || index >= kAddresses) return -1;
  const auto& address = meshbed::cost::kNullAddresses[index];
  *gid = {};
  gid->raw[10] = gid->raw[11] = 0xff;
  std::copy(std::begin(address), std::end(address), gid->raw + 12);
  return 0;
}

NULL_WIRE_VERB ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries, std::size_t most,
                                            std::uint32_t, std::size_t size) {
  if (most < kAddresses || size != sizeof(ibv_gid_entry)) return -EINVAL;
  for (int index = 0; index < kAddresses; ++index) {
    entries[index] = {};
    entries[index].gid_index = static_cast<std::uint32_t>(index);
    entries[index].port_num = 1;
    entries[index].gid_type = IBV_GID_TYPE_ROCE_V2;
    ibv_query_gid(context, 1, index, &entries[index].gid);
  }
  return kAddresses;
}

NULL_WIRE_VERB int ibv_get_async_event(ibv_context*, ibv_async_event*) {
  errno = EAGAIN;
  return -1;
}

NULL_WIRE_VERB void ibv_ack_async_event(ibv_async_event*) {}

// ---- objects

NULL_WIRE_VERB ibv_pd* ibv_alloc_pd(ibv_context* context) {
  auto* pd = new ibv_pd{};
  pd->context = context;
  return pd;
}

NULL_WIRE_VERB int ibv_dealloc_pd(ibv_pd* pd) {
  delete pd;
  return 0;
}

NULL_WIRE_VERB ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, std::size_t length, std::uint64_t, unsigned) {
  auto* mr = new ibv_mr{};
  mr->context = pd->context;
  mr->pd = pd;
  mr->addr = address;
  mr->length = length;
  mr->lkey = mr->rkey = 1;
  return mr;
}

NULL_WIRE_VERB ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, std::size_t length, int access) {
  return ibv_reg_mr_iova2(pd, address, length, reinterpret_cast<std::uintptr_t>(address),
                          static_cast<unsigned>(access));
}

NULL_WIRE_VERB ibv_mr* ibv_reg_dmabuf_mr(ibv_pd*, std::uint64_t, std::size_t, std::uint64_t, int, int) {
  return null_with<ibv_mr>(EOPNOTSUPP);
}

NULL_WIRE_VERB int ibv_dereg_mr(ibv_mr* mr) {
  delete mr;
  return 0;
}

NULL_WIRE_VERB ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  auto* channel = new Channel{};
  channel->base.context = context;
  channel->base.fd = ::eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
  return &channel->base;
}

NULL_WIRE_VERB int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  ::close(channel->fd);
  delete &channel_of(channel);
  return 0;
}

NULL_WIRE_VERB int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
  eventfd_t one = 0;
  if (::eventfd_read(channel->fd, &one) != 0) return -1;
  const std::lock_guard lock(g_mutex);
  if (channel_of(channel).announced.empty()) {  // by a destroyed queue
    errno = EAGAIN;
    return -1;
  }
  *cq = channel_of(channel).announced.front();
  *cq_context = (*cq)->cq_context;
  channel_of(channel).announced.pop_front();
  return 0;
}

NULL_WIRE_VERB void ibv_ack_cq_events(ibv_cq*, unsigned) {}

NULL_WIRE_VERB ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* cq_context, ibv_comp_channel* channel,
                                     int) {
  if (entries < 1) return null_with<ibv_cq>(EINVAL);
  auto* queue = new Queue{.completions = Ring<ibv_wc>(static_cast<std::size_t>(entries))};
  queue->base.context = context;
  queue->base.channel = channel;
  queue->base.cq_context = cq_context;
  queue->base.cqe = entries;
  return &queue->base;
}

NULL_WIRE_VERB int ibv_destroy_cq(ibv_cq* cq) {
  if (cq->channel != nullptr) {
    const std::lock_guard lock(g_mutex);
    std::erase(channel_of(cq->channel).announced, cq);
  }
  delete &queue_of(cq);
  return 0;
}

NULL_WIRE_VERB ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  if (attr->qp_type != IBV_QPT_RC || attr->srq != nullptr) return null_with<ibv_qp>(EOPNOTSUPP);
  auto* pair = new Pair{.receives = Ring<std::uint64_t>(attr->cap.max_recv_wr)};
  pair->base.context = pd->context;
  pair->base.pd = pd;
  pair->base.send_cq = attr->send_cq;
  pair->base.recv_cq = attr->recv_cq;
  pair->base.qp_type = attr->qp_type;
  pair->base.state = IBV_QPS_RESET;
  const std::lock_guard lock(g_mutex);
  pair->base.qp_num = g_next_number++;
  g_pairs[pair->base.qp_num] = pair;
  return &pair->base;
}

NULL_WIRE_VERB int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
  const std::lock_guard lock(g_mutex);
  if ((mask & IBV_QP_DEST_QPN) != 0) {
    const auto found = g_pairs.find(attr->dest_qp_num);
    if (found == g_pairs.end()) return ETIMEDOUT;  // no peer with that number
    pair_of(qp).peer = found->second;
  }
  if ((mask & IBV_QP_STATE) != 0) qp->state = attr->qp_state;
  return 0;
}

NULL_WIRE_VERB int ibv_destroy_qp(ibv_qp* qp) {
  const std::lock_guard lock(g_mutex);
  g_pairs.erase(qp->qp_num);
  for (const auto& [number, pair] : g_pairs) {
    if (pair->peer == &pair_of(qp)) pair->peer = nullptr;
  }
  delete &pair_of(qp);
  return 0;
}

NULL_WIRE_VERB const char* ibv_wc_status_str(ibv_wc_status status) {
  return status == IBV_WC_SUCCESS ? "success" : "unknown";
}
NULL_WIRE_VERB const char* ibv_event_type_str(ibv_event_type) { return "unknown"; }
