#include "plugin/net/link/flusher.h"

#include <algorithm>
#include <utility>

#include "plugin/base/deadline.h"
#include "plugin/net/link/request.h"

namespace meshbed::net {
namespace {

/// Every request may be a flush, and may be posted again after a resumption.
constexpr auto kDepth = static_cast<std::uint32_t>(2 * RequestPool::kRequests);
constexpr std::int64_t kSettledNs = 50'000'000;
constexpr std::size_t kWordBytes = 64;

}  // namespace

Result<std::unique_ptr<Flusher>> Flusher::open(const LocalEnd& local, const QpLinkSettings& settings) {
  std::unique_ptr<Flusher> flusher(new Flusher(local));
  const verbs::Device& device = *local.device;
  auto word = verbs::RegisteredBuffer::create(device.pd(), kWordBytes);
  if (!word) return word.error();
  flusher->word_ = std::move(*word);
  const std::uint32_t depth = std::min(kDepth, static_cast<std::uint32_t>(device.attributes().max_qp_wr));
  auto queue = verbs::CompletionQueue::create(device, static_cast<int>(depth) + 1);
  if (!queue) return queue.error();
  flusher->queue_ = std::move(*queue);
  auto pair =
      verbs::QueuePair::create(device, flusher->queue_, {.number = local.nic.port, .pkey_index = settings.pkey_index},
                               {.sends = depth, .receives = 1});
  if (!pair) return pair.error();
  flusher->pair_ = std::move(*pair);
  auto connected = flusher->pair_.connect({.local_port = local.nic.port,
                                           .local_gid_index = local.gid.index,
                                           .local_psn = local.psn,
                                           .remote_gid = local.gid.gid,
                                           .remote_qp_number = flusher->pair_.number(),
                                           .remote_psn = local.psn,
                                           .mtu = local.nic.mtu,
                                           .timeout = settings.queue_pair_timeout,
                                           .retries = settings.queue_pair_retries,
                                           .traffic_class = settings.traffic_class,
                                           .service_level = settings.service_level});
  if (!connected) return connected.error();
  return flusher;
}

bool Flusher::serves(const LocalEnd& local) const {
  return !broken_ && local.device == local_.device && local.nic.port == local_.nic.port &&
         local.gid.index == local_.gid.index && local.gid.gid == local_.gid.gid;
}

bool Flusher::can_read() const {
  if (broken_) return false;
  const Result<verbs::PortState> port = device().query_port(local_.nic.port);
  return port && port->active;
}

void Flusher::stand(bool here) {
  if (here) {
    left_ns_ = 0;
  } else if (left_ns_ == 0) {
    left_ns_ = now_ns();
    unread_ = true;  // parts of messages that were never completed
  }
}

void Flusher::note_write() {
  unread_ = true;
  if (!stands()) left_ns_ = now_ns();
}

bool Flusher::has_settled() const { return left_ns_ != 0 && now_ns() - left_ns_ >= kSettledNs; }

int Flusher::read(std::uint64_t work_id, std::uint64_t address, std::uint32_t rkey) {
  ibv_sge word{.addr = word_.address(), .length = 1, .lkey = word_.lkey()};
  ibv_send_wr work{};
  work.wr_id = work_id;
  work.sg_list = &word;
  work.num_sge = 1;
  work.opcode = IBV_WR_RDMA_READ;
  work.send_flags = IBV_SEND_SIGNALED;
  work.wr.rdma.remote_addr = address;
  work.wr.rdma.rkey = rkey;
  ibv_send_wr* refused = nullptr;
  const int error = ibv_post_send(pair_.raw(), &work, &refused);
  if (error != 0) return error;
  ++under_way_;
  unread_ = false;
  return 0;
}

int Flusher::poll(std::span<ibv_wc> completions) {
  if (under_way_ == 0) return 0;
  const int count = queue_.poll(completions);
  under_way_ -= static_cast<std::uint32_t>(std::max(count, 0));
  return count;
}

}  // namespace meshbed::net
