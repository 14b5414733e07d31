// The proxy with descriptor queues, and the thread that runs a rank's proxies.

#include <algorithm>
#include <iterator>

#include "plugin/coll/transport/plugin_log.h"
#include "plugin/ring/queue/ibgda_wqe.h"
#include "testbed/workload/megakernel/rank.h"

namespace meshbed::testbed {

using ring::Word;

void RingProxy::make_queues() {
  struct Kind {
    const char* name;
    int depth;
    std::unique_ptr<DescriptorQueue> (*make)(std::uint32_t depth);
  };
  static constexpr Kind kKinds[] = {{"gin", kGinDepthDefault, make_gin_queue},
                                    {"fifo", kFifoDepthDefault, make_fifo_queue},
                                    {"ibgda", static_cast<int>(ring::kWqeRingDefault), make_ibgda_queue}};
  const std::string& name = setting_.settings.queue;
  const Kind& kind =
      *std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Kind& one) { return name == one.name; });
  const int depth = setting_.settings.queue_depth > 0 ? setting_.settings.queue_depth : kind.depth;
  std::vector<int> owners;  // by queue: what it is for
  for (std::size_t index = 0; index < sends_.size(); ++index) {
    const int proxy = proxy_of(setting_.program.sends[index].peer);
    const int owner = name == "gin"    ? setting_.program.sends[index].peer
                      : name == "fifo" ? proxy
                                       : static_cast<int>(index);
    const auto found = std::find(owners.begin(), owners.end(), owner);
    sends_[index].queue = static_cast<std::size_t>(found - owners.begin());
    if (found != owners.end()) continue;
    owners.push_back(owner);
    queues_.push_back({.queue = kind.make(static_cast<std::uint32_t>(depth)), .proxy = proxy});
  }
  // Who sends nothing has one too: that there is one says how messages come in.
  if (queues_.empty()) queues_.push_back({.queue = kind.make(static_cast<std::uint32_t>(depth))});
}

void RingProxy::show(Word connection, std::uint64_t position) {
  queue_of(connection).queue->show(position);
  nudge(connection);
}

bool RingProxy::rings_doorbell(const RingDescriptor& what, std::uint64_t position) {
  Queue& queue = queues_[sends_[what.connection].queue];
  queue.written = std::max(queue.written, position + 1);
  const std::size_t each = setting_.program.sends[what.connection].messages;
  const bool is_last = what.is_signal && (what.message + (what.is_put ? 1 : 0)) % each == 0;
  const auto every = static_cast<std::uint64_t>(setting_.settings.doorbell_every);
  // One that was reserved before and written after others of a batch is behind the doorbell already.
  if ((position + 1) % every != 0 && !is_last && position >= queue.rung) return false;
  queue.rung = std::max(queue.rung, position + 1);
  return true;
}

std::uint64_t RingProxy::without_doorbell(int peer) const {
  std::uint64_t all = 0;
  for (std::size_t index = 0; index < sends_.size() && has_doorbell(); ++index) {
    if (setting_.program.sends[index].peer != peer) continue;
    const Queue& queue = queue_of(static_cast<Word>(index));
    all += queue.written - std::min(queue.written, queue.rung);
  }
  return all;
}

/// All that is there of ibgda: the NIC's.
Result<bool> RingProxy::pass_queues(int proxy) {
  bool moved = false;
  for (Queue& queue : queues_) {
    for (bool more = queue.proxy == proxy; more;) {
      const Result<bool> one = pass_queue(queue);
      if (!one) return one;
      moved = moved || *one;
      more = *one && has_doorbell();
    }
  }
  return moved;
}

/// One descriptor at most: as GIN's proxy of each peer in one pass, and MSCCL++'s in one turn.
Result<bool> RingProxy::pass_queue(Queue& queue) {
  if (!queue.taken) queue.taken = queue.queue->take();
  if (!queue.taken) return false;
  const auto& [position, what] = *queue.taken;
  Send& send = sends_[what.connection];
  if (send.requests.size() == send.signals.size()) return false;
  // Of ibgda one doorbell is for all that is before it.
  if (!queue.paid && position >= queue.paid_end) {
    spend_post();
    if (has_doorbell()) queue.paid_end = queue.queue->shown_end();
  }
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

RingProxies::RingProxies(RankHost& host, const Megakernel& settings)
    : host_(host), pass_ps_(settings.pass_ps), keys_(static_cast<std::size_t>(settings.proxies)) {
  if (settings.queue == "ibgda" && settings.initiation == "device") pass_ps_ = 0;  // the NIC looks at a doorbell alone
}

void RingProxies::add_threads(std::vector<RankThread>& threads) {
  for (std::size_t index = 0; index < keys_.size(); ++index) {
    threads.push_back({"proxy", [this, index] { run(static_cast<int>(index)); }});
  }
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

void RingProxies::run(int index) {
  while (!stopping_ && !failure_) {
    bool moved = false, waits_for_net = false;
    if (pass_ps_ > 0) host_.spend(pass_ps_);
    for (RingProxy* proxy : proxies_) {
      const Result<bool> one = proxy->pass(index);
      if (!one) {
        if (!failure_) failure_ = one.error();
        kernels_.front()->nudge_host();
        return;
      }
      moved = moved || *one;
    }
    if (moved) continue;
    for (const RingProxy* proxy : proxies_) waits_for_net = waits_for_net || proxy->waits_for_net(index);
    if (waits_for_net) {
      host_.idle("megakernel: the proxy's messages");
    } else {
      host_.doze(&keys_[static_cast<std::size_t>(index)], -1, "megakernel: the proxy's work");
    }
  }
}

void RingProxies::stop() {
  stopping_ = true;
  for (const char& key : keys_) host_.nudge(&key);
}

}  // namespace meshbed::testbed
