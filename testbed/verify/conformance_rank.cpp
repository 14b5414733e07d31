#include "testbed/verify/conformance_rank.h"

#include <fmt/format.h>

#include <algorithm>

#include "plugin/coll/transport/plugin_log.h"

namespace meshbed::testbed {
namespace {

constexpr std::uint8_t kUntouched = 0xa5;
/// Interval between checks for a failure of the other rank: each is a request to the store.
constexpr int kTurnsPerLook = 64;

}  // namespace

CaseBuffer::CaseBuffer(std::uint64_t size_bytes)
    : bytes_(std::make_unique<Bytes>(size_bytes + 2 * kGuardBytes, kUntouched)) {}

void CaseBuffer::fill(std::uint64_t seed, std::uint64_t offset, std::uint64_t size_bytes) {
  for (std::uint64_t at = 0; at < size_bytes; ++at) data()[offset + at] = pattern(seed, at);
}

std::uint64_t CaseBuffer::first_wrong(std::uint64_t seed, std::uint64_t offset, std::uint64_t size_bytes) const {
  const std::uint8_t* bytes = bytes_->data() + kGuardBytes + offset;
  std::uint64_t at = 0;
  while (at < size_bytes && bytes[at] == pattern(seed, at)) ++at;
  return at;
}

bool CaseBuffer::untouched_outside(std::uint64_t offset, std::uint64_t size_bytes) const {
  const auto begin = bytes_->begin() + static_cast<std::ptrdiff_t>(kGuardBytes + offset);
  const auto is_untouched = [](std::uint8_t byte) { return byte == kUntouched; };
  return std::all_of(bytes_->begin(), begin, is_untouched) &&
         std::all_of(begin + static_cast<std::ptrdiff_t>(size_bytes), bytes_->end(), is_untouched);
}

CaseRank::CaseRank(RankHost& host, coll::NetTable& net, std::string name, void* symbol)
    : host_(host), net_(net), name_(std::move(name)), symbol_(symbol) {}

int CaseRank::devices() {
  int count = 0;
  const std::uint64_t warns = coll::warn_count();
  succeeded(net_.devices(&count), "devices", warns);
  return count;
}

coll::DeviceProperties CaseRank::properties(int device) {
  coll::DeviceProperties properties;
  const std::uint64_t warns = coll::warn_count();
  succeeded(net_.properties(device, &properties), fmt::format("getProperties of device {}", device), warns);
  return properties;
}

int CaseRank::group_size() {
  int least = nccl::kMaxGroupedReceives;
  for (int device = 0; device < devices(); ++device) least = std::min(least, properties(device).receives_max);
  return least;
}

void CaseRank::require(bool holds, const std::string& rule) {
  if (!holds) throw CaseFailed{rule};
}

void CaseRank::succeeded(int code, const std::string& call, std::uint64_t warns_before) {
  if (code != nccl::kNcclSuccess) throw CaseFailed{call + ": " + coll::explain_net_error(code, warns_before)};
}

void CaseRank::wait(const std::string& what, const std::function<bool()>& ready) {
  const Picoseconds give_up_ps = host_.now_ps() + kPatience;
  while (!ready()) {
    if (host_.now_ps() > give_up_ps) {
      throw CaseFailed{fmt::format("{}: nothing for {} s", what, kPatience / kPicosecondsPerSecond)};
    }
    if (++interleaver_ % kTurnsPerLook == 0) look_for_failure();
    host_.idle("a conformance case");
  }
}

Picoseconds CaseRank::time_of(const std::function<void()>& call) {
  const Picoseconds before_ps = host_.now_ps();
  call();
  return host_.now_ps() - before_ps;
}

std::string CaseRank::key(int rank, const std::string& what) const {
  return fmt::format("{} {} {}", name_, rank, what);
}

void CaseRank::publish(const std::string& what, const std::string& value) {
  if (const Result<void> done = host_.publish(key(rank(), what), value); !done) throw CaseFailed{done.error().text};
}

std::string CaseRank::await(const std::string& what) {
  std::string text;
  wait("the other rank's " + what, [&] {
    const Result<std::optional<std::string>> value = host_.look_up(key(1 - rank(), what));
    if (!value) throw CaseFailed{value.error().text};
    if (*value) text = **value;
    return value->has_value();
  });
  return text;
}

void CaseRank::publish_failure() { publish("failure", "failed"); }

void CaseRank::look_for_failure() {
  const Result<std::optional<std::string>> value = host_.look_up(key(1 - rank(), "failure"));
  if (value && *value) throw PeerFailed{};
}

void CaseRank::meet(const std::string& point) {
  publish(point, "here");
  await(point);
}

void* CaseRank::listen(int device, CaseHandle& handle) {
  void* listener = nullptr;
  const std::uint64_t warns = coll::warn_count();
  succeeded(net_.listen(device, handle.bytes.data(), &listener), fmt::format("listen on device {}", device), warns);
  require(listener != nullptr, "listen succeeds with a listener");
  return listener;
}

void* CaseRank::listen(int device, const std::string& what) {
  CaseHandle handle;
  void* listener = listen(device, handle);
  publish(what, {reinterpret_cast<const char*>(handle.bytes.data()), nccl::kHandleBytes});
  return listener;
}

void* CaseRank::connect(int device, const std::string& what) {
  const std::string handle_text = await(what);
  CaseHandle handle;
  std::copy_n(handle_text.begin(), std::min(handle_text.size(), nccl::kHandleBytes), handle.bytes.begin());
  void* comm = nullptr;
  wait("connect to " + what, [&] {
    const std::uint64_t warns = coll::warn_count();
    succeeded(net_.connect(device, handle.bytes.data(), &comm), fmt::format("connect from device {}", device), warns);
    return comm != nullptr;
  });
  return comm;
}

void* CaseRank::accept(void* listener) {
  void* comm = nullptr;
  wait("accept", [&] {
    const std::uint64_t warns = coll::warn_count();
    succeeded(net_.accept(listener, &comm), "accept", warns);
    return comm != nullptr;
  });
  return comm;
}

CasePair CaseRank::connect_both(int device, int peer_device, const std::string& what) {
  void* listener = listen(first() ? device : peer_device, what);
  const std::string handle_text = await(what);
  CaseHandle handle;
  std::copy_n(handle_text.begin(), std::min(handle_text.size(), nccl::kHandleBytes), handle.bytes.begin());
  CasePair pair;
  // Polls both ends alternately, as NCCL's service thread does: neither may wait for the other's first step.
  wait("connect and accept", [&] {
    const std::uint64_t warns = coll::warn_count();
    const int own = first() ? device : peer_device;
    if (pair.send == nullptr) succeeded(net_.connect(own, handle.bytes.data(), &pair.send), "connect", warns);
    if (pair.receive == nullptr) succeeded(net_.accept(listener, &pair.receive), "accept", warns);
    return pair.send != nullptr && pair.receive != nullptr;
  });
  close_listener(listener);
  return pair;
}

void CaseRank::close(const CasePair& pair) {
  const std::uint64_t warns = coll::warn_count();
  succeeded(net_.close_send(pair.send), "closeSend", warns);
  succeeded(net_.close_receive(pair.receive), "closeRecv", warns);
}

void CaseRank::close_listener(void* listener) {
  const std::uint64_t warns = coll::warn_count();
  succeeded(net_.close_listen(listener), "closeListen", warns);
}

void* CaseRank::register_memory(void* comm, CaseBuffer& buffer) {
  void* handle = nullptr;
  const std::uint64_t warns = coll::warn_count();
  succeeded(net_.register_memory(comm, buffer.data(), buffer.size(), &handle), "regMr", warns);
  return handle;
}

void CaseRank::deregister_memory(void* comm, void* handle) {
  const std::uint64_t warns = coll::warn_count();
  succeeded(net_.deregister_memory(comm, handle), "deregMr", warns);
}

void* CaseRank::try_send(void* comm, void* data, std::uint64_t size_bytes, int tag, void* handle) {
  void* request = nullptr;
  const std::uint64_t warns = coll::warn_count();
  succeeded(net_.send(comm, data, size_bytes, tag, handle, &request), fmt::format("isend of {} bytes", size_bytes),
            warns);
  return request;
}

void* CaseRank::try_receive(void* comm, void* data, std::uint64_t size_bytes, int tag, void* handle) {
  return try_receive_group(comm, {{.data = data, .size_bytes = size_bytes, .tag = tag, .handle = handle}});
}

void* CaseRank::try_receive_group(void* comm, const std::vector<coll::ReceivePart>& parts) {
  void* request = nullptr;
  const std::uint64_t warns = coll::warn_count();
  succeeded(net_.receive_group(comm, parts, &request), fmt::format("irecv of {} parts", parts.size()), warns);
  return request;
}

void* CaseRank::send(void* comm, void* data, std::uint64_t size_bytes, int tag, void* handle) {
  void* request = nullptr;
  wait("isend gives a request", [&] {
    request = try_send(comm, data, size_bytes, tag, handle);
    return request != nullptr;
  });
  return request;
}

void* CaseRank::receive(void* comm, void* data, std::uint64_t size_bytes, int tag, void* handle) {
  return receive_group(comm, {{.data = data, .size_bytes = size_bytes, .tag = tag, .handle = handle}});
}

void* CaseRank::receive_group(void* comm, const std::vector<coll::ReceivePart>& parts) {
  void* request = nullptr;
  wait("irecv gives a request", [&] {
    request = try_receive_group(comm, parts);
    return request != nullptr;
  });
  return request;
}

bool CaseRank::is_done(void* request, int* sizes) {
  std::array<int, nccl::kMaxGroupedReceives> unread{};
  bool done = false;
  const std::uint64_t warns = coll::warn_count();
  succeeded(net_.test_group(request, &done, sizes != nullptr ? sizes : unread.data()), "test", warns);
  return done;
}

std::uint64_t CaseRank::finish(void* request, int* sizes) {
  std::array<int, nccl::kMaxGroupedReceives> own{};
  int* found = sizes != nullptr ? sizes : own.data();
  wait("test says done", [&] { return is_done(request, found); });
  return static_cast<std::uint64_t>(found[0]);
}

void CaseRank::finish_all(const std::vector<void*>& requests) {
  std::vector<void*> left = requests;
  wait("test says done", [&] {
    std::erase_if(left, [this](void* request) { return is_done(request); });
    return left.empty();
  });
}

void CaseRank::send_one(void* comm, std::uint64_t size_bytes, std::uint64_t seed, int tag) {
  CaseBuffer buffer(size_bytes);
  buffer.fill(seed, 0, size_bytes);
  void* handle = register_memory(comm, buffer);
  finish(send(comm, buffer.data(), size_bytes, tag, handle));
  deregister_memory(comm, handle);
}

void CaseRank::receive_one(void* comm, std::uint64_t size_bytes, std::uint64_t seed, std::uint64_t spare_bytes,
                           int tag) {
  CaseBuffer buffer(size_bytes + spare_bytes);
  void* handle = register_memory(comm, buffer);
  const std::uint64_t arrived = finish(receive(comm, buffer.data(), buffer.size(), tag, handle));
  deregister_memory(comm, handle);
  require(arrived == size_bytes, fmt::format("test says how much came: {} where {} were sent", arrived, size_bytes));
  const std::uint64_t wrong = buffer.first_wrong(seed, 0, size_bytes);
  require(wrong == size_bytes, fmt::format("what arrives is what was sent: byte {} of {} is not", wrong, size_bytes));
  require(buffer.untouched_outside(0, size_bytes),
          fmt::format("nothing is written outside a message of {} bytes", size_bytes));
}

void CaseRank::exchange(const CasePair& pair, std::uint64_t size_bytes, std::uint64_t seed) {
  CaseBuffer out(size_bytes), in(size_bytes);
  out.fill(seed + static_cast<std::uint64_t>(rank()), 0, size_bytes);
  void* out_handle = register_memory(pair.send, out);
  void* in_handle = register_memory(pair.receive, in);
  void* receive_request = receive(pair.receive, in.data(), size_bytes, 0, in_handle);
  void* send_request = send(pair.send, out.data(), size_bytes, 0, out_handle);
  finish_all({receive_request, send_request});
  deregister_memory(pair.send, out_handle);
  deregister_memory(pair.receive, in_handle);
  const std::uint64_t wrong = in.first_wrong(seed + static_cast<std::uint64_t>(1 - rank()), 0, size_bytes);
  require(wrong == size_bytes, fmt::format("what arrives is what was sent: byte {} of {} is not", wrong, size_bytes));
}

}  // namespace meshbed::testbed
