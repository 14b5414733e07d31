#include <fmt/format.h>

#include <algorithm>

#include "plugin/coll/transport/plugin_log.h"
#include "testbed/workload/megakernel/rank.h"
#include "testbed/workload/megakernel/times.h"
#include "testbed/workload/rank_table.h"

namespace meshbed::testbed {

using ring::Word;

namespace {

std::string ring_key_of(int source, int destination, int ring, int channel, bool is_flags) {
  return fmt::format("ring {} {} {} {}{}", source, destination, ring, channel, is_flags ? " flags" : "");
}

}  // namespace

RingProxy::RingProxy(const Setting& setting)
    : setting_(setting), sends_(setting.program.sends.size()), receives_(setting.program.receives.size()) {
  setting_.kernel.use(*this);
  if (setting_.settings.queue != "direct") make_queues();
}

Result<void> RingProxy::checked(const char* call, int code, std::uint64_t warns_before) const {
  if (code == nccl::kNcclSuccess) return ok();
  return table_error(setting_.net, call, code, warns_before);
}

Result<void> RingProxy::enlist(End& end) {
  const std::uint64_t warns = coll::warn_count();
  for (std::size_t space = 0; space < setting_.spaces.size(); ++space) {
    std::vector<std::byte>& bytes = setting_.spaces[space];
    if (bytes.empty()) continue;
    const int code = setting_.net.register_memory(end.comm, bytes.data(), bytes.size(), &end.memory[space]);
    if (auto done = checked("regMr", code, warns); !done) return done;
  }
  if (!has_queues()) return ok();  // without signals of their own, too: as many messages may be under way
  end.signals.resize(nccl::kMaxRequests);
  return checked("regMr",
                 setting_.net.register_memory(end.comm, end.signals.data(), end.signals.size() * sizeof(std::uint64_t),
                                              &end.signals_memory),
                 warns);
}

Result<void> RingProxy::connect() {
  const std::uint64_t warns = coll::warn_count();
  for (std::size_t index = 0; index < receives_.size(); ++index) {
    const auto& [peer, channel, landings] = setting_.program.receives[index];
    const auto listen = [&, peer = peer, channel = channel](End& end, bool is_flags) -> Result<void> {
      std::array<char, nccl::kHandleBytes> handle{};
      if (auto done = checked("listen", setting_.net.listen(0, handle.data(), &end.listener), warns); !done)
        return done;
      const std::string key = ring_key_of(peer, setting_.host.rank(), setting_.ring, channel, is_flags);
      return setting_.host.publish(key, {handle.data(), handle.size()});
    };
    if (auto done = listen(receives_[index], false); !done) return done;
    if (!has_flag_queues()) continue;
    if (auto done = listen(receives_[index].flags, true); !done) return done;
  }
  struct Wanted {
    End* end;
    std::string key, handle{};
  };
  std::vector<Wanted> wanted;
  for (std::size_t index = 0; index < sends_.size(); ++index) {
    const auto& [peer, channel, messages] = setting_.program.sends[index];
    wanted.push_back({&sends_[index], ring_key_of(setting_.host.rank(), peer, setting_.ring, channel, false)});
    if (!has_flag_queues()) continue;
    wanted.push_back({&sends_[index].flags, ring_key_of(setting_.host.rank(), peer, setting_.ring, channel, true)});
  }
  for (bool waits = true; waits;) {
    waits = false;
    for (auto& [end, key, handle] : wanted) {
      if (handle.empty()) {
        const auto found = setting_.host.look_up(key);
        if (!found) return found.error();
        if (*found) handle = **found;
      }
      if (!handle.empty() && end->comm == nullptr) {
        if (auto done = checked("connect", setting_.net.connect(0, handle.data(), &end->comm), warns); !done) {
          return done;
        }
      }
      waits = waits || end->comm == nullptr;
    }
    for (Receive& receive : receives_) {
      for (End* end : {static_cast<End*>(&receive), static_cast<End*>(&receive.flags)}) {
        if (end->comm != nullptr || end->listener == nullptr) continue;
        if (auto done = checked("accept", setting_.net.accept(end->listener, &end->comm), warns); !done) return done;
        waits = waits || end->comm == nullptr;
      }
    }
    if (!waits) break;
    if (setting_.host.others_failed()) {
      return Error{.code = ErrorCode::kClosed, .scope = Scope::kJob, .text = "another rank has failed"};
    }
    setting_.host.idle("megakernel: connections");
  }
  for (Send& send : sends_) {
    if (auto done = enlist(send); !done) return done;
    if (auto done = enlist_flags(send.flags); !done) return done;
  }
  for (Receive& receive : receives_) {
    if (auto done = enlist(receive); !done) return done;
    if (auto done = enlist_flags(receive.flags); !done) return done;
  }
  return ok();
}

Result<void> RingProxy::close() {
  if (auto done = close_flags(); !done) return done;
  const std::uint64_t warns = coll::warn_count();
  const auto forget = [&](End& end) -> Result<void> {
    for (void* memory : end.memory) {
      if (memory == nullptr) continue;
      if (auto done = checked("deregMr", setting_.net.deregister_memory(end.comm, memory), warns); !done) return done;
    }
    if (end.signals_memory == nullptr) return ok();
    return checked("deregMr", setting_.net.deregister_memory(end.comm, end.signals_memory), warns);
  };
  for (Send& send : sends_) {
    if (auto done = forget(send); !done) return done;
    if (auto done = checked("closeSend", setting_.net.close_send(send.comm), warns); !done) return done;
  }
  for (Receive& receive : receives_) {
    if (auto done = forget(receive); !done) return done;
    if (auto done = checked("closeRecv", setting_.net.close_receive(receive.comm), warns); !done) return done;
    if (auto done = checked("closeListen", setting_.net.close_listen(receive.listener), warns); !done) return done;
  }
  return ok();
}

void RingProxy::begin_epoch() {
  for (std::size_t index = 0; index < receives_.size(); ++index) {
    receives_[index].open += setting_.program.receives[index].landings.size() * (sends_signals() ? 2 : 1);
    receives_[index].flags.due += setting_.program.receives[index].landings.size();
  }
  for (int proxy = 0; proxy < setting_.settings.proxies; ++proxy) setting_.host.nudge(setting_.threads + proxy);
}

void RingProxy::commit(Word connection, Word puts) {
  Send& send = sends_[connection];
  // A later signal may have come first: it said it for this one.
  if (static_cast<std::int32_t>(puts - send.committed) > 0) send.committed = puts;
  nudge(connection);
}

bool RingProxy::waits_for_net(int proxy) const {
  const auto waits = [](const auto& end) {
    return !end.requests.empty() || !end.flags.requests.empty() ||
           (end.flags.comm != nullptr && end.flags.posted < end.flags.due);
  };
  const auto sends = [&](const Send& send) {
    return is_of(proxy, send) && (waits(send) || send.posted != send.committed);
  };
  const auto receives = [&](const Receive& receive) {
    return is_of(proxy, receive) && (waits(receive) || receive.posted < receive.open);
  };
  return std::any_of(sends_.begin(), sends_.end(), sends) ||
         std::any_of(receives_.begin(), receives_.end(), receives) ||
         std::any_of(queues_.begin(), queues_.end(),
                     [&](const Queue& queue) { return queue.proxy == proxy && queue.taken.has_value(); });
}

bool RingProxy::sends() const {
  // A put that is not posted yet waits for the other side's receive, which may have been lost as well.
  return std::any_of(sends_.begin(), sends_.end(),
                     [](const Send& send) {
                       return !send.requests.empty() || !send.flags.requests.empty() ||
                              (send.posted != send.committed && !send.puts.empty());
                     }) ||
         std::any_of(queues_.begin(), queues_.end(), [](const Queue& queue) { return queue.taken.has_value(); });
}

Result<bool> RingProxy::pass(int proxy) {
  bool moved = false;
  for (Send& send : sends_) {
    if (!is_of(proxy, send)) continue;
    const Result<bool> ended = pass_ends(send);
    if (!ended) return ended;
    const Result<bool> posted = pass_posts(send);
    if (!posted) return posted;
    const Result<bool> flags = pass_flags(send);
    if (!flags) return flags;
    moved = moved || *ended || *posted || *flags;
  }
  const Result<bool> queued = pass_queues(proxy);
  if (!queued) return queued;
  moved = moved || *queued;
  for (std::size_t index = 0; index < receives_.size(); ++index) {
    if (!is_of(proxy, receives_[index])) continue;
    const Result<bool> flags = pass_flags(static_cast<Word>(index));
    if (!flags) return flags;
    const Result<bool> one = pass_receives(static_cast<Word>(index));
    if (!one) return one;
    moved = moved || *one || *flags;
  }
  return moved;
}

Result<bool> RingProxy::finished(void* request, std::uint64_t* size_bytes) const {
  bool done = false;
  const std::uint64_t warns = coll::warn_count();
  if (auto fine = checked("test", setting_.net.test(request, &done, size_bytes), warns); !fine) return fine.error();
  return done;
}

void RingProxy::complete(Send& send) {
  const auto seen = [this, &send] {
    ++send.completed;
    setting_.kernel.see_completion(static_cast<Word>(&send - sends_.data()));
  };
  if (setting_.settings.credit_ps > 0) {
    setting_.kernel.at(setting_.host.now_ps() + setting_.settings.credit_ps, seen);
  } else {
    seen();
  }
}

void RingProxy::give_back(std::function<void()> free) {
  const auto seen = [this, free = std::move(free)] {
    free();
    setting_.kernel.see_room();
  };
  if (setting_.settings.credit_ps > 0) {
    setting_.kernel.at(setting_.host.now_ps() + setting_.settings.credit_ps, seen);
  } else {
    seen();
  }
}

void RingProxy::spend_post() {
  const Picoseconds begin_ps = setting_.host.now_ps(), post_ps = post_of(setting_.settings);
  if (post_ps == 0) return;
  setting_.host.spend(post_ps);
  if (RingParts* const parts = setting_.kernel.parts()) {
    parts->add(setting_.host.rank(), RingPart::kQueue, begin_ps, setting_.host.now_ps());
  }
}

Result<bool> RingProxy::pass_ends(Send& send) {
  bool moved = false;
  while (!send.requests.empty()) {
    std::uint64_t size_bytes = 0;
    const Posted first = send.requests.front();
    const Result<bool> done = finished(first.request, &size_bytes);
    if (!done) return done;
    if (!*done) break;
    send.requests.pop_front();
    if (has_queues()) {
      DescriptorQueue& queue = *queues_[send.queue].queue;
      give_back([&queue, position = first.position] { queue.completed(position); });
    }
    if (!first.is_signal) complete(send);
    moved = true;
  }
  return moved;
}

/// Of what was put directly; with queues there is none.
Result<bool> RingProxy::pass_posts(Send& send) {
  bool moved = false;
  while (send.posted != send.committed && !send.puts.empty()) {
    const Put& put = send.puts.front();
    if (!send.paid) spend_post();
    send.paid = true;
    void* request = nullptr;
    const std::uint64_t warns = coll::warn_count();
    const int code = setting_.net.send(send.comm, put.data, put.size_bytes, kTag, send.memory[put.space], &request);
    if (auto fine = checked("isend", code, warns); !fine) return fine.error();
    if (request == nullptr) break;
    send.paid = false;
    if (RingParts* const parts = setting_.kernel.parts()) {
      parts->posted(setting_.host.rank(), sending_of(send).peer, sending_of(send).channel, setting_.host.now_ps());
    }
    send.requests.push_back({.request = request});
    send.puts.pop_front();
    ++send.posted;
    ++send.flags.due;
    moved = true;
  }
  return moved;
}

Result<void> RingProxy::came(Word connection, std::uint64_t size_bytes, std::uint64_t due_bytes) const {
  if (size_bytes == due_bytes) return ok();
  return Error{.code = ErrorCode::kRemote,
               .scope = Scope::kJob,
               .text = fmt::format("message {} from rank {} has {} bytes instead of {}", receives_[connection].arrived,
                                   setting_.program.receives[connection].peer, size_bytes, due_bytes)};
}

/// The connection's receive of that number. Where signals are messages, message m of the program is the receive 2 m,
/// its signal the one behind it.
RingProxy::Incoming RingProxy::incoming(Word connection, std::uint64_t number) {
  Receive& receive = receives_[connection];
  const std::uint64_t message = sends_signals() ? number / 2 : number;
  if (sends_signals() && number % 2 == 1) {
    return {.data = &receive.signals[message % receive.signals.size()],
            .size_bytes = kSignalBytes,
            .memory = receive.signals_memory,
            .is_signal = true};
  }
  const std::vector<coll::Landing>& landings = setting_.program.receives[connection].landings;
  const coll::Landing& landing = landings[message % landings.size()];
  const auto space = static_cast<std::size_t>(landing.area.space);
  return {.data = setting_.spaces[space].data() + landing.area.offset_bytes,
          .size_bytes = landing.size_bytes,
          .memory = receive.memory[space]};
}

Result<bool> RingProxy::pass_receives(Word connection) {
  Receive& receive = receives_[connection];
  bool moved = false;
  while (receive.posted < receive.open && receive.requests.size() < nccl::kMaxRequests) {
    const Incoming next = incoming(connection, receive.posted);
    void* request = nullptr;
    const std::uint64_t warns = coll::warn_count();
    const int code = setting_.net.receive(receive.comm, next.data, next.size_bytes, kTag, next.memory, &request);
    if (auto fine = checked("irecv", code, warns); !fine) return fine.error();
    if (request == nullptr) break;
    receive.requests.push_back(request);
    if (!next.is_signal) setting_.kernel.posted(connection);
    ++receive.posted;
    moved = true;
  }
  while (!receive.requests.empty()) {
    std::uint64_t size_bytes = 0;
    const Result<bool> done = finished(receive.requests.front(), &size_bytes);
    if (!done) return done;
    if (!*done) break;
    const Incoming first = incoming(connection, receive.arrived);
    if (auto fine = came(connection, size_bytes, first.size_bytes); !fine) return fine.error();
    receive.requests.pop_front();
    ++receive.arrived;
    if (has_flag_queues()) {
      setting_.kernel.landed(connection);
    } else if (first.is_signal || !sends_signals()) {
      setting_.kernel.arrived(connection);
    }
    moved = true;
  }
  return moved;
}

}  // namespace meshbed::testbed
