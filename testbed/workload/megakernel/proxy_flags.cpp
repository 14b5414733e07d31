// Flags on queue pairs of their own (Megakernel::other_flag_qp): nothing keeps them behind their data.

#include "plugin/coll/transport/plugin_log.h"
#include "testbed/workload/megakernel/rank.h"

namespace meshbed::testbed {

using ring::Word;

Result<void> RingProxy::enlist_flags(Flags& flags) {
  if (flags.comm == nullptr) return ok();
  flags.signals.resize(nccl::kMaxRequests);
  const std::uint64_t warns = coll::warn_count();
  return checked("regMr",
                 setting_.net.register_memory(flags.comm, flags.signals.data(),
                                              flags.signals.size() * sizeof(std::uint64_t), &flags.signals_memory),
                 warns);
}

Result<void> RingProxy::close_flags() {
  const std::uint64_t warns = coll::warn_count();
  const auto forget = [&](Flags& flags) -> Result<void> {
    if (flags.signals_memory == nullptr) return ok();
    return checked("deregMr", setting_.net.deregister_memory(flags.comm, flags.signals_memory), warns);
  };
  for (Send& send : sends_) {
    if (send.flags.comm == nullptr) continue;
    if (auto done = forget(send.flags); !done) return done;
    if (auto done = checked("closeSend", setting_.net.close_send(send.flags.comm), warns); !done) return done;
  }
  for (Receive& receive : receives_) {
    if (receive.flags.comm == nullptr) continue;
    if (auto done = forget(receive.flags); !done) return done;
    if (auto done = checked("closeRecv", setting_.net.close_receive(receive.flags.comm), warns); !done) return done;
    if (auto done = checked("closeListen", setting_.net.close_listen(receive.flags.listener), warns); !done)
      return done;
  }
  return ok();
}

Result<std::size_t> RingProxy::finish_flags(Flags& flags) {
  std::size_t count = 0;
  for (; !flags.requests.empty(); ++count) {
    std::uint64_t size_bytes = 0;
    const Result<bool> done = finished(flags.requests.front(), &size_bytes);
    if (!done) return done.error();
    if (!*done) break;
    flags.requests.pop_front();
  }
  return count;
}

Result<bool> RingProxy::post_flags(Flags& flags, bool sends) {
  bool moved = false;
  while (flags.posted < flags.due && flags.requests.size() < flags.signals.size()) {
    std::uint64_t* const word = &flags.signals[flags.posted % flags.signals.size()];
    if (sends) *word = flags.posted;
    void* request = nullptr;
    const std::uint64_t warns = coll::warn_count();
    const int code = sends ? setting_.net.send(flags.comm, word, kSignalBytes, kTag, flags.signals_memory, &request)
                           : setting_.net.receive(flags.comm, word, kSignalBytes, kTag, flags.signals_memory, &request);
    if (auto fine = checked(sends ? "isend" : "irecv", code, warns); !fine) return fine.error();
    if (request == nullptr) break;
    flags.requests.push_back(request);
    ++flags.posted;
    moved = true;
  }
  return moved;
}

Result<bool> RingProxy::pass_flags(Send& send) {
  if (send.flags.comm == nullptr) return false;
  const Result<std::size_t> through = finish_flags(send.flags);
  if (!through) return through.error();
  const Result<bool> posted = post_flags(send.flags, true);
  if (!posted) return posted;
  return *through > 0 || *posted;
}

Result<bool> RingProxy::pass_flags(Word connection) {
  Flags& flags = receives_[connection].flags;
  if (flags.comm == nullptr) return false;
  const Result<bool> posted = post_flags(flags, false);
  if (!posted) return posted;
  const Result<std::size_t> came = finish_flags(flags);
  if (!came) return came.error();
  for (std::size_t flag = 0; flag < *came; ++flag) setting_.kernel.arrived(connection);
  return *came > 0 || *posted;
}

}  // namespace meshbed::testbed
