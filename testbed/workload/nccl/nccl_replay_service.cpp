// The service thread: makes, registers and closes connections.
//
// It makes repeated passes over its calls, in order. A call whose object does not exist yet, or has an earlier pending
// call, is skipped, as are all later calls on that object; all others proceed. So ranks that connect to each other in a
// circle all succeed, as in NCCL, whose service thread polls all pending connections.

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "testbed/workload/nccl/nccl_replay.h"

namespace meshbed::testbed {
namespace {

bool names_comm(NetCall call) {
  return call == NetCall::kConnect || call == NetCall::kAccept || call == NetCall::kRegMr ||
         call == NetCall::kDeregMr || call == NetCall::kCloseSend || call == NetCall::kCloseRecv;
}

std::string handle_key(int listener) { return fmt::format("listener {}", listener); }

/// The key by which `rank` informs `other` that it has made all its connections.
std::string connected_key(int rank, int other) { return fmt::format("connected {} {}", rank, other); }

bool connects(const RecordedCall& call) { return call.call == NetCall::kConnect || call.call == NetCall::kAccept; }

}  // namespace

Result<void> Replay::run_service() {
  std::vector<bool> done(calls_.service.size(), false);
  std::size_t first_open = 0;
  auto connections_left = std::count_if(calls_.service.begin(), calls_.service.end(), connects);
  if (connections_left == 0) {
    if (const Result<void> published = publish_connected(); !published) return published;
  }
  while (first_open < done.size()) {
    if (board_.stop || host_.others_failed()) return ok();  // the rank that failed has reported why
    bool moved = false;
    std::set<int> waiting_comms, waiting_listeners;
    for (std::size_t index = first_open; index < done.size(); ++index) {
      if (done[index]) continue;
      const RecordedCall& call = calls_.service[index];
      const bool comm_waits = names_comm(call.call) && waiting_comms.count(call.comm) > 0;
      const bool listener_waits = call.call == NetCall::kCloseListen && waiting_listeners.count(call.listener) > 0;
      if (!comm_waits && !listener_waits) {
        const Result<Step> step = issue_service(call);
        if (!step) return step.error();
        if (*step == Step::kDone) {
          done[index] = true;
          moved = true;
          if (connects(call) && --connections_left == 0) {
            if (const Result<void> published = publish_connected(); !published) return published;
          }
          continue;
        }
      }
      if (names_comm(call.call)) waiting_comms.insert(call.comm);
      if (call.call == NetCall::kAccept) waiting_listeners.insert(call.listener);
    }
    while (first_open < done.size() && done[first_open]) ++first_open;
    if (!moved) host_.idle("nccl-calls: connections");
  }
  return ok();
}

Result<void> Replay::publish_connected() {
  for (int other = 0; other < host_.ranks(); ++other) {
    if (other == host_.rank()) continue;
    if (auto published = host_.publish(connected_key(host_.rank(), other), "1"); !published) return published;
  }
  return ok();
}

Result<void> Replay::wait_until_all_connected() {
  for (int other = 0; other < host_.ranks(); ++other) {
    bool is_connected = other == host_.rank();
    while (!is_connected) {
      if (board_.stop || host_.others_failed()) return ok();  // the rank that failed has reported why
      const Result<std::optional<std::string>> connected = host_.look_up(connected_key(other, host_.rank()));
      if (!connected) return connected.error();
      is_connected = connected->has_value();
      if (!is_connected) host_.idle("nccl-calls: the other ranks' connections");
    }
  }
  return ok();
}

Result<Replay::Step> Replay::issue_service(const RecordedCall& call) {
  const auto finished = [](const Result<void>& result) -> Result<Step> {
    if (!result) return result.error();
    return Step::kDone;
  };
  switch (call.call) {
    case NetCall::kGetProperties:
      return finished(issue_main(call));
    case NetCall::kSetNetAttr: {
      nccl::NetAttr attributes = call.attributes;
      return finished(check(net_->setNetAttr(context_, &attributes), call, "setNetAttr"));
    }
    case NetCall::kListen: {
      Handle handle;
      void*& listen_comm = listen_comms_.at(static_cast<std::size_t>(call.listener));
      const Result<void> listening =
          check(net_->listen(context_, device_of(call), handle.bytes.data(), &listen_comm), call, "listen");
      if (!listening) return listening.error();
      return finished(host_.publish(handle_key(call.listener), std::string(handle.bytes.begin(), handle.bytes.end())));
    }
    case NetCall::kConnect:
      return connect(call);
    case NetCall::kAccept:
      return accept(call);
    case NetCall::kRegMr:
      return finished(register_memory(call));
    case NetCall::kDeregMr:
    case NetCall::kCloseSend:
    case NetCall::kCloseRecv:
      return close(call);
    case NetCall::kCloseListen: {
      void*& listen_comm = listen_comms_.at(static_cast<std::size_t>(call.listener));
      const Result<void> closed = check(net_->closeListen(listen_comm), call, "closeListen");
      listen_comm = nullptr;
      return finished(closed);
    }
    default:
      return Error{.code = ErrorCode::kUnsupported,
                   .scope = Scope::kJob,
                   .text = fmt::format("line {}: not a call of the service thread", call.line)};
  }
}

Result<Replay::Step> Replay::connect(const RecordedCall& call) {
  std::optional<Handle>& listener = handles_.at(static_cast<std::size_t>(call.listener));
  if (!listener) {
    const Result<std::optional<std::string>> published = host_.look_up(handle_key(call.listener));
    if (!published) return published.error();
    if (!*published) return Step::kNotYet;
    listener.emplace();
    std::copy_n((*published)->begin(), std::min((*published)->size(), listener->bytes.size()), listener->bytes.begin());
  }
  // The plugin may keep state in the handle between polls, so it is not changed afterwards.
  void* handle = nullptr;
  nccl::NetDeviceHandle* device_handle = nullptr;
  const Result<void> polled =
      check(net_->connect(context_, device_of(call), listener->bytes.data(), &handle, &device_handle), call, "connect");
  if (!polled) return polled.error();
  if (handle == nullptr) return Step::kNotYet;
  if (const Result<void> opened = open_comm(comm_of(call), handle, true, call); !opened) return opened.error();
  ++board_.connections;
  return Step::kDone;
}

Result<Replay::Step> Replay::accept(const RecordedCall& call) {
  void* handle = nullptr;
  nccl::NetDeviceHandle* device_handle = nullptr;
  void* listen_comm = listen_comms_.at(static_cast<std::size_t>(call.listener));
  const Result<void> polled = check(net_->accept(listen_comm, &handle, &device_handle), call, "accept");
  if (!polled) return polled.error();
  if (handle == nullptr) return Step::kNotYet;
  if (const Result<void> opened = open_comm(comm_of(call), handle, false, call); !opened) return opened.error();
  return Step::kDone;
}

Result<void> Replay::open_comm(Comm& comm, void* handle, bool sends, const RecordedCall& call) {
  comm.handle = handle;
  comm.sends = sends;
  comm.listener = call.listener;
  if (comm.messages == 0) return ok();
  // NCCL places payloads within the recorded registrations, but the recording does not contain the offsets. They get a
  // registered arena of their own, with a slot for each request that may be under way.
  const std::uint64_t arena_bytes = std::max<std::uint64_t>(comm.slot_bytes, 64) * nccl::kMaxRequests;
  comm.arena = std::make_unique_for_overwrite<std::uint8_t[]>(arena_bytes);
  return check(net_->regMr(handle, comm.arena.get(), arena_bytes, nccl::kPtrHost, &comm.arena_mr), call, "regMr");
}

Result<void> Replay::register_memory(const RecordedCall& call) {
  Registration& registration = registrations_.at(static_cast<std::size_t>(call.mr));
  registration.memory = std::make_unique_for_overwrite<std::uint8_t[]>(call.size_bytes);
  return check(net_->regMr(comm_of(call).handle, registration.memory.get(), call.size_bytes, nccl::kPtrHost,
                           &registration.handle),
               call, "regMr");
}

Result<void> Replay::deregister_memory(const RecordedCall& call) {
  Registration& registration = registrations_.at(static_cast<std::size_t>(call.mr));
  const Result<void> done = check(net_->deregMr(comm_of(call).handle, registration.handle), call, "deregMr");
  registration = {};
  return done;
}

Result<Replay::Step> Replay::close(const RecordedCall& call) {
  Comm& comm = comm_of(call);
  if (comm.finished < comm.messages) return Step::kNotYet;  // its traffic is still under way
  Result<void> done = ok();
  if (call.call == NetCall::kDeregMr) {
    done = deregister_memory(call);
  } else {
    if (comm.arena_mr != nullptr) done = check(net_->deregMr(comm.handle, comm.arena_mr), call, "deregMr");
    if (!done) return done.error();
    done = comm.sends ? check(net_->closeSend(comm.handle), call, "closeSend")
                      : check(net_->closeRecv(comm.handle), call, "closeRecv");
    comm.handle = nullptr;
    comm.arena.reset();
  }
  if (!done) return done.error();
  return Step::kDone;
}

}  // namespace meshbed::testbed
