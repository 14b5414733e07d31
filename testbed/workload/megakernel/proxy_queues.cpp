// The proxy with descriptor queues, and the thread that runs a rank's proxies.

#include <algorithm>

#include "plugin/coll/transport/plugin_log.h"
#include "testbed/workload/megakernel/rank.h"

namespace meshbed::testbed {

using ring::Word;

void RingProxy::make_queues() {
  const bool gin = setting_.settings.queue == "gin";
  const auto depth = static_cast<std::uint32_t>(setting_.settings.queue_depth > 0 ? setting_.settings.queue_depth
                                                : gin                             ? kGinDepthDefault
                                                                                  : kFifoDepthDefault);
  std::vector<int> peers;  // by queue
  for (std::size_t index = 0; index < sends_.size(); ++index) {
    const int peer = gin ? setting_.program.sends[index].peer : -1;
    const auto found = std::find(peers.begin(), peers.end(), peer);
    sends_[index].queue = static_cast<std::size_t>(found - peers.begin());
    if (found == peers.end()) peers.push_back(peer);
  }
  // Who sends nothing has one too: that there is one says how messages come in.
  queues_.resize(std::max<std::size_t>(peers.size(), 1));
  for (Queue& queue : queues_) queue.queue = gin ? make_gin_queue(depth) : make_fifo_queue(depth);
}

void RingProxy::show(Word connection, std::uint64_t position) {
  queue_of(connection).queue->show(position);
  setting_.host.nudge(setting_.thread);
}

/// One descriptor at most: as GIN's proxy of each peer in one pass, and MSCCL++'s in one turn.
Result<bool> RingProxy::pass_queue(Queue& queue) {
  if (!queue.taken) queue.taken = queue.queue->take();
  if (!queue.taken) return false;
  const auto& [position, what] = *queue.taken;
  Send& send = sends_[what.connection];
  if (send.requests.size() == send.signals.size()) return false;
  if (!queue.paid) spend_post();
  queue.paid = true;
  void* request = nullptr;
  const std::uint64_t warns = coll::warn_count();
  int code = 0;
  if (!what.is_put && has_flag_queues()) {
    // Its place is its flag's, which goes over the other queue pair.
    ++send.flags.due;
    give_back([&places = *queue.queue, position = position] {
      places.posted(position);
      places.completed(position);
    });
    queue.taken.reset();
    queue.paid = false;
    return true;
  }
  if (!what.is_put) {
    std::uint64_t* const word = &send.signals[what.message % send.signals.size()];
    *word = what.message;
    code = setting_.net.send(send.comm, word, kSignalBytes, kTag, send.signals_memory, &request);
  } else {
    std::byte* const data = setting_.spaces[what.space].data() + what.offset;
    code = setting_.net.send(send.comm, data, what.bytes, kTag, send.memory[what.space], &request);
  }
  if (auto fine = checked("isend", code, warns); !fine) return fine.error();
  if (request == nullptr) return false;
  if (RingParts* const parts = setting_.kernel.parts(); parts != nullptr && what.is_put) {
    const auto& to = setting_.program.sends[what.connection];
    parts->posted(setting_.host.rank(), to.peer, to.channel, setting_.host.now_ps());
  }
  send.requests.push_back({.request = request, .position = position, .is_signal = !what.is_put});
  if (setting_.settings.fuses && has_flag_queues()) ++send.flags.due;
  give_back([&places = *queue.queue, position = position] { places.posted(position); });
  queue.taken.reset();
  queue.paid = false;
  return true;
}

Result<void> RingProxies::connect() {
  for (RingProxy* proxy : proxies_) {
    if (auto done = proxy->connect(); !done) return done;
  }
  return ok();
}

Result<void> RingProxies::close() {
  for (RingProxy* proxy : proxies_) {
    if (auto done = proxy->close(); !done) return done;
  }
  return ok();
}

void RingProxies::begin_epoch() {
  for (RingProxy* proxy : proxies_) proxy->begin_epoch();
}

void RingProxies::run() {
  while (!stopping_) {
    bool moved = false, waits_for_net = false;
    if (pass_ps_ > 0) host_.spend(pass_ps_);
    for (RingProxy* proxy : proxies_) {
      const Result<bool> one = proxy->pass();
      if (!one) {
        failure_ = one.error();
        kernels_.front()->nudge_host();
        return;
      }
      moved = moved || *one;
    }
    if (moved) continue;
    for (const RingProxy* proxy : proxies_) waits_for_net = waits_for_net || proxy->waits_for_net();
    if (waits_for_net) {
      host_.idle("megakernel: the proxy's messages");
    } else {
      host_.doze(this, -1, "megakernel: the proxy's work");
    }
  }
}

void RingProxies::stop() {
  stopping_ = true;
  host_.nudge(this);
}

}  // namespace meshbed::testbed
