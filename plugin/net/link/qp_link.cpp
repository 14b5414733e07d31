#include "plugin/net/link/qp_link.h"

#include <algorithm>
#include <utility>

#include "plugin/base/deadline.h"
#include "plugin/base/log.h"
#include "plugin/net/link/retired_links.h"

namespace meshbed::net {
namespace {

verbs::QueuePairDepths allowed(verbs::QueuePairDepths depths, const QpLinkSettings& settings) {
  if (!settings.inline_data) depths.inline_bytes = 0;
  return depths;
}

}  // namespace

bool LocalEnd::has_gid_in(const std::vector<verbs::GidEntry>& gids) const {
  return std::any_of(gids.begin(), gids.end(),
                     [this](const verbs::GidEntry& entry) { return entry.index == gid.index && entry.gid == gid.gid; });
}

std::vector<Nic>::const_iterator LocalEnd::port_in(const std::vector<Nic>& nics) const {
  return std::find_if(nics.begin(), nics.end(),
                      [this](const Nic& other) { return other.device == nic.device && other.port == nic.port; });
}

bool LocalEnd::stands(const std::vector<Nic>& nics) const {
  const auto ours = port_in(nics);
  return ours == nics.end() || (ours->link_up && has_gid_in(ours->gids));
}

QpLink::QpLink(LocalEnd local, const QpLinkSettings& settings, const QpLinkShape& shape)
    : local_(std::move(local)),
      settings_(settings),
      sends_(shape.sends),
      wants_notice_(shape.wants_notice),
      memory_entries_(shape.memory_entries) {}

Result<std::unique_ptr<QpLink>> QpLink::open(LocalEnd local, const QpLinkSettings& settings, const QpLinkShape& shape) {
  std::unique_ptr<QpLink> qp_link(new QpLink(std::move(local), settings, shape));
  if (shape.memory_bytes > 0) {
    auto memory = verbs::RegisteredBuffer::create(
        qp_link->device().pd(), shape.may_be_striped && settings.striped ? kRailedRingBytes : shape.memory_bytes);
    if (!memory) return memory.error();
    qp_link->memory_ = std::move(*memory);
  }
  // Room for every work request, since in ERR each of them leaves a completion.
  std::uint32_t work_requests = shape.depths.sends + shape.depths.receives;
  if (shape.lane) work_requests += shape.lane->sends + shape.lane->receives;
  auto queue = verbs::CompletionQueue::create(qp_link->device(), static_cast<int>(work_requests) + 1, shape.channel);
  if (!queue) return queue.error();
  qp_link->queue_ = std::move(*queue);
  const verbs::QueuePairPort port{.number = qp_link->local_.nic.port, .pkey_index = settings.pkey_index};
  auto pair = verbs::QueuePair::create(qp_link->device(), qp_link->queue_, port, allowed(shape.depths, settings));
  if (!pair) return pair.error();
  qp_link->pair_ = std::move(*pair);
  if (!shape.lane) return qp_link;
  auto lane = verbs::QueuePair::create(qp_link->device(), qp_link->queue_, port, allowed(*shape.lane, settings));
  if (!lane) return lane.error();
  qp_link->lane_ = std::move(*lane);
  return qp_link;
}

WireEnd QpLink::describe() const {
  WireEnd end;
  end.qp_number = pair_.number();
  end.lane_qp_number = lane_ ? lane_->number() : 0;
  end.psn = local_.psn;
  end.gid = local_.gid.gid;
  end.gid_type = local_.gid.type;
  end.mtu = local_.nic.mtu;
  end.max_recvs = static_cast<std::uint8_t>(kMaxGroup);
  end.address = local_.address;
  if (memory_.exists()) {
    end.memory_address = memory_.address();
    end.memory_rkey = memory_.rkey();
  }
  end.memory_entries = memory_entries_;
  end.wants_notice = wants_notice_;
  end.service_port = local_.service_port;
  end.node = local_.node;
  end.nic = local_.nic.device_name;
  return end;
}

Result<void> QpLink::join(const WireEnd& peer, std::uint8_t mtu) {
  peer_ = peer;
  joined_ns_ = now_ns();
  // The kernel would try to resolve the peer's Ethernet address for a second (rdma_resolve_ip) and block the service.
  if (const Result<verbs::PortState> port = device().query_port(local_.nic.port); port && !port->active) {
    return Error{.code = ErrorCode::kUnreachable,
                 .scope = Scope::kPort,
                 .text = ends_text() + ": the port of " + local_.nic.device_name + " is down: look at its cable",
                 .os_errno = 0};
  }
  verbs::QueuePairPath path;
  path.local_port = local_.nic.port;
  path.local_gid_index = local_.gid.index;
  path.local_psn = local_.psn;
  path.remote_gid = peer.gid;
  path.remote_qp_number = peer.qp_number;
  path.remote_psn = peer.psn;
  path.mtu = mtu;
  path.timeout = settings_.queue_pair_timeout;
  path.retries = settings_.queue_pair_retries;
  path.traffic_class = settings_.traffic_class;
  path.service_level = settings_.service_level;
  if (auto joined = pair_.connect(path); !joined) {
    Error error = joined.error();
    error.text = ends_text() + ": " + error.text + "; our subnet is " + subnet_text(local_.address);
    return error;
  }
  if (lane_) {
    path.remote_qp_number = peer.lane_qp_number;
    if (auto joined = lane_->connect(path); !joined) return joined;
  }
  // The smaller one of both ends: another MTU at the peer costs bandwidth, and larger IP packets may be lost there.
  const std::uint8_t own = local_.nic.mtu;
  const std::string larger = mtu < own ? ", though this port has " + std::to_string(verbs::mtu_bytes(own)) : "";
  MESHBED_INFO("%s %s: connected, GID %s (index %u, %s), path MTU %u%s", sends_ ? "send" : "recv", ends_text().c_str(),
               verbs::to_text(local_.gid.gid).c_str(), local_.gid.index, verbs::to_text(local_.gid.type),
               verbs::mtu_bytes(mtu), larger.c_str());
  return ok();
}

void QpLink::lay(std::size_t number, std::unique_ptr<QpLink> rail) {
  put_away(std::exchange(rails_[number], std::move(rail)), this);
  has_rails_ = true;
}

void QpLink::abort() {
  pair_.abort();
  if (lane_) lane_->abort();
  for (const auto& rail : rails_) {
    if (rail) rail->abort();
  }
}

std::string QpLink::ends_text() const {
  return local_.nic.device_name + " " + to_text(local_.address.address) + " QP " + std::to_string(pair_.number()) +
         (sends_ ? " -> " : " <- ") + peer_.nic + " " + to_text(peer_.address.address) + " QP " +
         std::to_string(peer_.qp_number);
}

}  // namespace meshbed::net
