// The progress thread: issues sends and receives in the recorded order and tests what is under way.

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>

#include "plugin/base/prng.h"
#include "testbed/workload/nccl/nccl_replay.h"

namespace meshbed::testbed {

/// A profile's software cost does not apply to connections, which NCCL makes before it launches.
Result<void> Replay::launch() {
  const auto is_ready = [](const Comm& comm) { return comm.messages == 0 || comm.arena_mr != nullptr; };
  while (!std::all_of(comms_.begin(), comms_.end(), is_ready)) {
    if (board_.stop || host_.others_failed()) return ok();
    host_.idle("nccl-calls: all connections");
  }
  if (const Result<void> all = host_.rendezvous(); !all) return all;
  board_.messages_from_ps = host_.now_ps();
  host_.spend(*board_.launch_ps);
  return ok();
}

/// NCCL passes its plugin a mask with one bit for the protocol of the following messages (1 LL, 2 LL128, 4 Simple in
/// the recordings). For sends and receives it gives no protocol: they are treated as Simple.
void Replay::set_hop(std::uint32_t protocols) {
  std::size_t protocol = board_.hops_ps.size() - 1;
  for (std::size_t bit = 0; bit < board_.hops_ps.size(); ++bit) {
    if (protocols == 1U << bit) protocol = bit;
  }
  host_.set_hop(board_.hops_ps.at(protocol));
}

Result<void> Replay::run_progress() {
  if (board_.launch_ps) {
    if (const Result<void> launched = launch(); !launched) return launched;
  }
  std::size_t next = 0;
  while (next < calls_.progress.size() || !requests_.empty()) {
    if (board_.stop || host_.others_failed()) return ok();  // the rank that failed has reported why
    bool moved = false;
    while (next < calls_.progress.size()) {
      const Result<Step> step = issue_progress(calls_.progress[next]);
      if (!step) return step.error();
      if (*step == Step::kNotYet) break;
      ++next;
      moved = true;
    }
    const Result<bool> completed = poll_requests();
    if (!completed) return completed.error();
    if (!moved && !*completed) host_.idle("nccl-calls: requests");
  }
  return ok();
}

Result<Replay::Step> Replay::issue_progress(const RecordedCall& call) {
  if (call.call == NetCall::kSetNetAttr) {
    nccl::NetAttr attributes = call.attributes;
    if (const Result<void> done = check(net_->setNetAttr(context_, &attributes), call, "setNetAttr"); !done) {
      return done.error();
    }
    if (board_.launch_ps) set_hop(attributes.proto);
    return Step::kDone;
  }
  Comm& comm = comm_of(call);
  const std::size_t slot = comm.started % nccl::kMaxRequests;
  if (comm.arena_mr == nullptr || comm.slot_used[slot]) return Step::kNotYet;

  std::uint8_t* payload = comm.arena.get() + slot * comm.slot_bytes;
  void* request = nullptr;
  Result<void> posted = ok();
  if (call.call == NetCall::kIsend) {
    generate_payload({board_.seed, comm.listener, comm.started}, payload, call.size_bytes);
    posted = check(net_->isend(comm.handle, payload, call.size_bytes, call.tag, comm.arena_mr, nullptr, &request), call,
                   "isend");
  } else {
    void* data = payload;
    std::size_t size = call.size_bytes;
    int tag = call.tag;
    if (call.optional) request = reinterpret_cast<void*>(nccl::kOptionalRecvCompletion);
    posted = check(net_->irecv(comm.handle, 1, &data, &size, &tag, &comm.arena_mr, nullptr, &request), call, "irecv");
  }
  if (!posted) return posted.error();
  if (request == nullptr) return Step::kNotYet;
  requests_.push_back({.handle = request, .call = &call, .message = comm.started++});
  comm.slot_used[slot] = true;
  return Step::kDone;
}

Result<bool> Replay::poll_requests() {
  bool completed = false;
  for (std::size_t index = 0; index < requests_.size();) {
    const Request request = requests_[index];
    int done = 0;
    int size = 0;
    const Result<void> tested = check(net_->test(request.handle, &done, &size), *request.call, "test");
    if (!tested) return tested.error();
    if (done == 0) {
      ++index;
      continue;
    }
    check_finished(request, static_cast<std::uint64_t>(size));
    requests_.erase(requests_.begin() + static_cast<std::ptrdiff_t>(index));
    completed = true;
  }
  return completed;
}

void Replay::check_finished(const Request& request, std::uint64_t size_bytes) {
  const RecordedCall& call = *request.call;
  Comm& comm = comm_of(call);
  const std::size_t slot = request.message % nccl::kMaxRequests;
  comm.slot_used[slot] = false;
  ++comm.finished;
  ++board_.requests;
  board_.messages_until_ps = host_.now_ps();

  std::string problem;
  if (size_bytes != call.arrived_bytes) {
    problem = fmt::format("{} bytes, {} were recorded", size_bytes, call.arrived_bytes);
  } else if (comm.sends) {
    board_.sent_bytes += size_bytes;
  } else {
    board_.checked_bytes += size_bytes;
    const std::uint8_t* payload = comm.arena.get() + slot * comm.slot_bytes;
    const std::uint64_t wrong_at = first_wrong_byte({board_.seed, comm.listener, request.message}, payload, size_bytes);
    std::uint64_t& data = board_.data[static_cast<std::size_t>(host_.rank())];
    const std::uint64_t which = mix64(static_cast<std::uint64_t>(comm.listener) << 32U ^ request.message);
    data += mix64(which ^ XXH3_64bits(payload, size_bytes));
    if (wrong_at < size_bytes) problem = fmt::format("byte {} of {} is wrong", wrong_at, size_bytes);
  }
  if (problem.empty()) return;
  if (board_.wrong++ == 0) {
    board_.first_wrong = fmt::format("rank {}, line {}, message {} over listener {}: {}", host_.rank(), call.line,
                                     request.message, comm.listener, problem);
  }
}

}  // namespace meshbed::testbed
