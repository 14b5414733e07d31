#include "cli/bench/cost/null_relay.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "cli/bench/cost/null_wire.h"
#include "plugin/net/connect/connecting.h"
#include "plugin/net/connect/routing.h"
#include "plugin/net/process/memory.h"
#include "plugin/net/rdma/receive.h"
#include "plugin/net/relay/chain_search.h"

namespace meshbed::cost {
namespace {

constexpr int kRounds = 100'000, kRoundUs = 100;

/// Sleeps so that the service can finish its work.
void settle() {
  const timespec round{.tv_sec = 0, .tv_nsec = kRoundUs * 1'000};
  ::ppoll(nullptr, 0, &round, nullptr);
}

/// Repeats `done` until it returns true, at most for 10 s.
template <typename Done>
void wait_until(Done done, const char* what) {
  for (int round = 0; !done(); ++round) {
    require(round < kRounds, what);
    settle();
  }
}

template <typename T>
T value_of(Result<T> result) {
  require(static_cast<bool>(result), result ? "" : result.error().text.c_str());
  return std::move(*result);
}

/// The file with the CPU time of this process' only other thread: proc(5), schedstat.
std::string times_of_other_thread() {
  std::string found;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == std::to_string(::getpid())) continue;
    require(found.empty(), "the plugin has more than one thread");
    found = task.path() / "schedstat";
  }
  require(!found.empty(), "the plugin has no thread");
  return found;
}

}  // namespace

NullRelay::NullRelay(const std::string& plugin, std::size_t message_bytes)
    : plugin_(plugin), source_(message_bytes), target_(message_bytes), service_times_(times_of_other_thread()) {
  transport_ = value_of(net::Transport::open(net::Config()));
  connect();
  source_memory_ = value_of(transport_->register_memory(
      *sender_, {.data = source_.data(), .size_bytes = source_.size(), .kind = net::MemoryKind::kHost}));
  require_success(plugin_.net().regMr(receive_, target_.data(), target_.size(), nccl::kPtrHost, &target_handle_),
                  "regMr");
}

/// The contents of a neighbour's discovery message, obtained by a handshake that is not continued.
std::uint16_t NullRelay::ask_service_port(const net::Handle& receiver) {
  const std::vector<net::Nic> nics = transport_->current_nics();
  const net::Route route = value_of(net::choose_route({.nics = &nics, .peer = receiver.addresses}));
  auto asking = value_of(net::SendConnection::create(transport_->local_end(nics.front(), route.local, route.gid),
                                                     transport_->settings_for(-1)));
  net::Connecting connecting(*transport_,
                             {.route = route,
                              .target = {.address = route.remote.prefix.address, .port = receiver.tcp_port},
                              .cookie = receiver.cookie,
                              .keeps_ready = true},
                             asking->qp_link());
  void* unused = nullptr;
  nccl::NetDeviceHandle* device = nullptr;
  wait_until(
      [&] {
        require_success(plugin_.net().accept(listen_, &unused, &device), "accept");
        return value_of(connecting.advance());
      },
      "the plugin did not answer a handshake within 10 s");
  return connecting.session_port();
}

void NullRelay::connect() {
  std::array<char, nccl::kHandleBytes> handle{};
  require_success(plugin_.net().listen(plugin_.context(), 0, handle.data(), &listen_), "listen");
  std::array<std::uint8_t, net::kHandleBytes> bytes{};
  std::copy(handle.begin(), handle.end(), bytes.begin());
  const net::Handle receiver = value_of(net::decode_handle(bytes));
  const std::vector<net::Nic> nics = transport_->current_nics();
  const net::Hop relay{
      .node = receiver.node, .address = receiver.addresses.back().prefix, .port = ask_service_port(receiver)};
  net::ChainStart start = value_of(net::start_of(*transport_, {relay}, receiver, 0, nics));
  const net::Route& route = start.destination.route;
  sender_ = value_of(net::SendConnection::create(transport_->local_end(nics.front(), route.local, route.gid),
                                                 transport_->settings_for(-1), start.circuit));
  net::Connecting connecting(*transport_, start.destination, sender_->qp_link());
  bool connected = false;
  nccl::NetDeviceHandle* device = nullptr;
  wait_until(
      [&] {
        connected = connected || value_of(connecting.advance());
        if (receive_ == nullptr) require_success(plugin_.net().accept(listen_, &receive_, &device), "accept");
        return connected && receive_ != nullptr;
      },
      "the circuit did not come to stand within 10 s");
  sender_->attach(connecting.take_control());
}

NullRelay::~NullRelay() {
  if (target_handle_ != nullptr) plugin_.net().deregMr(receive_, target_handle_);
  if (source_memory_ != nullptr) source_memory_->release();
  if (sender_ != nullptr) sender_->close();
  if (receive_ != nullptr) plugin_.net().closeRecv(receive_);
  if (listen_ != nullptr) plugin_.net().closeListen(listen_);
}

void NullRelay::message(std::uint64_t number) {
  // All bytes differ from their neighbours, and all messages from each other.
  for (std::size_t at = 0; at < source_.size(); ++at) source_[at] = static_cast<unsigned char>(number * 31 + at * 7);
  burst(1);
  require(source_ == target_, "other bytes arrived than were sent");
}

void NullRelay::burst(std::size_t messages) {
  std::vector<void*> receiving(messages);
  std::vector<net::Request*> sending(messages);
  meshbed_null_wire_be_silent(true);
  for (void*& request : receiving) {
    void *data = target_.data(), *event = nullptr;
    std::size_t size = target_.size();
    int tag = 0;
    require_success(plugin_.net().irecv(receive_, 1, &data, &size, &tag, &target_handle_, &event, &request), "irecv");
    require(request != nullptr, "irecv had nothing to show");
  }
  meshbed_null_wire_be_silent(false);
  settle();
  for (net::Request*& request : sending) {
    wait_until(
        [&] {
          meshbed_null_wire_be_silent(true);
          request =
              value_of(sender_->post({.data = source_.data(), .size_bytes = source_.size(), .memory = source_memory_}));
          if (request == nullptr) meshbed_null_wire_be_silent(false);
          return request != nullptr;
        },
        "no clear-to-send came through the relay within 10 s");
  }
  meshbed_null_wire_be_silent(false);
  for (net::Request* request : sending) {
    wait_until(
        [&] {
          const auto progress = sender_->test(*request, nullptr);
          require(progress != net::Endpoint::Progress::kFailed, "test of the send");
          return progress == net::Endpoint::Progress::kDone;
        },
        "the relay did not confirm a message within 10 s");
  }
  for (void* request : receiving) {
    int done = 0, size = 0;
    require_success(plugin_.net().test(request, &done, &size), "test of the receive");
    require(done != 0, "a confirmed message is not with its receiver");
    require(static_cast<std::size_t>(size) == target_.size(), "another size arrived than was sent");
  }
  settle();
}

std::int64_t NullRelay::service_cpu_ns() const {
  std::ifstream times(service_times_);
  std::int64_t on_cpu_ns = 0;
  require(static_cast<bool>(times >> on_cpu_ns), "the kernel does not tell the service's CPU time");
  return on_cpu_ns;
}

}  // namespace meshbed::cost
