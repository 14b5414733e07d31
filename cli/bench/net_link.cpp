#include "cli/bench/net_link.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <utility>

#include "plugin/coll/transport/plugin_log.h"

namespace meshbed::testbed {
namespace {

constexpr const char* kHandleKey = "net link handle";
constexpr int kTag = 0;
constexpr int kTurnsBeforeYield = 16;
/// Rest of a stream's receiver: its posted receives last twice as long (32 messages of 64 KiB or more, 0.6 ms each on
/// emulated processors).
constexpr int kStreamRestMs = 8;

Error broken(std::string text) { return {.code = ErrorCode::kRemote, .scope = Scope::kJob, .text = std::move(text)}; }

}  // namespace

NetLink::NetLink(MetalHost& host, std::unique_ptr<coll::Transport> transport, std::uint64_t largest_bytes)
    : host_(host), transport_(std::move(transport)), buffer_(largest_bytes) {}

NetLink::~NetLink() {
  coll::NetTable& table = transport_->table();
  if (memory_ != nullptr) table.deregister_memory(comm_, memory_);
  if (comm_ != nullptr) sends() ? table.close_send(comm_) : table.close_receive(comm_);
  if (listen_ != nullptr) table.close_listen(listen_);
}

Result<std::unique_ptr<NetLink>> NetLink::open(MetalHost& host, const std::string& plugin,
                                               std::uint64_t largest_bytes) {
  auto transport = coll::Transport::load({.plugin = plugin, .comm_id = 1, .rank = host.rank()});
  if (!transport) return transport.error();
  std::unique_ptr<NetLink> link(new NetLink(host, std::move(*transport), largest_bytes));
  if (const Result<void> connected = link->connect(); !connected) return connected.error();
  const std::uint64_t warns = coll::warn_count();
  const Result<void> registered = link->checked(
      link->transport_->table().register_memory(link->comm_, link->buffer_.data(), largest_bytes, &link->memory_),
      warns);
  if (!registered) return registered.error();
  if (const Result<void> all = host.rendezvous(); !all) return all.error();
  return link;
}

Result<void> NetLink::connect() {
  coll::NetTable& table = transport_->table();
  const std::uint64_t warns = coll::warn_count();
  std::array<char, nccl::kHandleBytes> handle{};
  if (!sends()) {
    if (const auto done = checked(table.listen(0, handle.data(), &listen_), warns); !done) return done;
    if (const auto done = host_.publish(kHandleKey, {handle.data(), handle.size()}); !done) return done;
  } else {
    for (bool there = false; !there;) {
      const Result<std::optional<std::string>> text = host_.look_up(kHandleKey);
      if (!text) return text.error();
      there = text->has_value();
      if (there) std::copy_n((*text)->begin(), std::min((*text)->size(), handle.size()), handle.begin());
      if (!there) host_.idle("net link: the listener's handle");
    }
  }
  while (comm_ == nullptr) {
    if (host_.others_failed()) return broken("the other rank has failed");
    const int code = sends() ? table.connect(0, handle.data(), &comm_) : table.accept(listen_, &comm_);
    if (const Result<void> fine = checked(code, warns); !fine) return fine;
    if (comm_ == nullptr) host_.idle("net link: the connection");
  }
  return ok();
}

Result<void> NetLink::checked(int code, std::uint64_t warns_before) const {
  if (code == nccl::kNcclSuccess) return ok();
  return broken(coll::explain_net_error(code, warns_before));
}

Result<bool> NetLink::post(std::uint64_t size_bytes, void** request) {
  coll::NetTable& table = transport_->table();
  const std::uint64_t warns = coll::warn_count();
  // The same memory each time, as perftest does it.
  const int code = sends() ? table.send(comm_, buffer_.data(), size_bytes, kTag, memory_, request)
                           : table.receive(comm_, buffer_.data(), size_bytes, kTag, memory_, request);
  if (const Result<void> fine = checked(code, warns); !fine) return fine.error();
  return *request != nullptr;
}

Result<bool> NetLink::finished(void* request, std::uint64_t size_bytes) {
  bool done = false;
  std::uint64_t arrived_bytes = 0;
  const std::uint64_t warns = coll::warn_count();
  const Result<void> fine = checked(transport_->table().test(request, &done, &arrived_bytes), warns);
  if (!fine) return fine.error();
  if (done && !sends() && arrived_bytes != size_bytes) {
    return broken(fmt::format("{} bytes arrived where {} were sent", arrived_bytes, size_bytes));
  }
  return done;
}

Result<void> NetLink::transfer(const Transfer& wanted) {
  const auto& [size_bytes, count, depth, rests, times_ns] = wanted;
  std::deque<void*> under_way;
  std::uint64_t posted = 0, done = 0;
  Picoseconds before_ps = 0;  // when the message before was done
  int idle_turns = 0;
  while (done < count) {
    bool moved = false;
    while (posted < count && under_way.size() < depth) {
      // The clock is read as seldom as possible: reading takes microseconds in a virtual machine, and perftest does
      // not.
      if (posted == 0) before_ps = first_posted_ps_ = host_.now_ps();
      void* request = nullptr;
      const Result<bool> taken = post(size_bytes, &request);
      if (!taken) return taken.error();
      if (!*taken) break;
      under_way.push_back(request);
      ++posted;
      moved = true;
    }
    while (!under_way.empty()) {
      const Result<bool> over = finished(under_way.front(), size_bytes);
      if (!over) return over.error();
      if (!*over) break;
      if (times_ns != nullptr) {
        const Picoseconds now_ps = host_.now_ps();
        times_ns->push_back((now_ps - std::exchange(before_ps, now_ps)) / kPicosecondsPerNanosecond);
      }
      under_way.pop_front();
      ++done;
      moved = true;
    }
    if (moved) {
      idle_turns = 0;
      continue;
    }
    // perftest runs no process at the receiver of a stream; a spinning one would take the processor from the kernel's
    // RoCE. perftest's loops never yield; ours yields at times.
    if (!rests && ++idle_turns % kTurnsBeforeYield != 0) continue;
    if (host_.others_failed()) return broken("the other rank has failed");
    rests ? host_.rest(kStreamRestMs) : host_.idle("net link: messages");
  }
  return ok();
}

Result<double> NetLink::stream(std::uint64_t size_bytes, std::uint64_t count) {
  if (const Result<void> all = host_.rendezvous(); !all) return all.error();
  const Result<void> moved = transfer(
      {.size_bytes = size_bytes, .count = count, .depth = sends() ? kDepth : kReceivesAhead, .rests = !sends()});
  if (!moved) return moved.error();
  const double seconds =
      static_cast<double>(host_.now_ps() - first_posted_ps_) / static_cast<double>(kPicosecondsPerSecond);
  return static_cast<double>(size_bytes * count) / seconds;
}

Result<std::vector<std::int64_t>> NetLink::one_by_one(std::uint64_t size_bytes, std::uint64_t count) {
  if (const Result<void> all = host_.rendezvous(); !all) return all.error();
  std::vector<std::int64_t> times_ns;
  times_ns.reserve(count);
  // The sender may be ahead by unacknowledged messages; the receiver posts no receive ahead.
  const Result<void> moved = transfer({.size_bytes = size_bytes,
                                       .count = count,
                                       .depth = sends() ? kDepth : 1,
                                       .times_ns = sends() ? nullptr : &times_ns});
  if (!moved) return moved.error();
  return times_ns;
}

}  // namespace meshbed::testbed
