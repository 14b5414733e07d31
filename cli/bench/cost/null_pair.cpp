#include "cli/bench/cost/null_pair.h"

#include <poll.h>

#include <array>

using meshbed::nccl::NetV11;

// The calls that callgrind counts. Not inlined, and their result is looked at afterwards, so that each stays a call.
extern "C" {

[[gnu::noinline]] int meshbed_cost_irecv(const NetV11& net, void* comm, void* data, std::size_t size, void* memory,
                                         void** request) {
  int tag = 0;
  void* event = nullptr;
  const int result = net.irecv(comm, 1, &data, &size, &tag, &memory, &event, request);
  return *request != nullptr ? result : meshbed::nccl::kNcclInProgress;
}

[[gnu::noinline]] int meshbed_cost_isend(const NetV11& net, void* comm, void* data, std::size_t size, void* memory,
                                         void** request) {
  const int result = net.isend(comm, data, size, 0, memory, nullptr, request);
  return *request != nullptr ? result : meshbed::nccl::kNcclInProgress;
}

[[gnu::noinline]] int meshbed_cost_test_send(const NetV11& net, void* request) {
  int done = 0, size = 0;
  const int result = net.test(request, &done, &size);
  return done != 0 ? result : meshbed::nccl::kNcclInProgress;
}

[[gnu::noinline]] int meshbed_cost_test_receive(const NetV11& net, void* request) {
  int done = 0, size = 0;
  const int result = net.test(request, &done, &size);
  return done != 0 ? result : meshbed::nccl::kNcclInProgress;
}

[[gnu::noinline]] int meshbed_cost_test_in_vain(const NetV11& net, void* request) {
  int done = 0, size = 0;
  const int result = net.test(request, &done, &size);
  return done != 0 ? meshbed::nccl::kNcclInternalError : result;
}

}  // extern "C"

namespace meshbed::cost {
namespace {

constexpr int kConnectRounds = 30'000, kRoundMs = 1;

}  // namespace

NullPair::NullPair(const std::string& plugin, std::size_t message_bytes)
    : plugin_(plugin), source_(message_bytes), target_(message_bytes) {
  connect();
  require_success(plugin_.net().regMr(send_, source_.data(), source_.size(), nccl::kPtrHost, &source_handle_), "regMr");
  require_success(plugin_.net().regMr(receive_, target_.data(), target_.size(), nccl::kPtrHost, &target_handle_),
                  "regMr");
}

void NullPair::connect() {
  std::array<char, nccl::kHandleBytes> handle{};
  require_success(plugin_.net().listen(plugin_.context(), 0, handle.data(), &listen_), "listen");
  for (int round = 0; send_ == nullptr || receive_ == nullptr; ++round) {
    nccl::NetDeviceHandle *sender = nullptr, *receiver = nullptr;
    if (send_ == nullptr)
      require_success(plugin_.net().connect(plugin_.context(), 0, handle.data(), &send_, &sender), "connect");
    if (receive_ == nullptr) require_success(plugin_.net().accept(listen_, &receive_, &receiver), "accept");
    require(round < kConnectRounds, "the two ends did not find each other within 30 s");
    ::poll(nullptr, 0, kRoundMs);
  }
}

NullPair::~NullPair() {
  if (source_handle_ != nullptr) plugin_.net().deregMr(send_, source_handle_);
  if (target_handle_ != nullptr) plugin_.net().deregMr(receive_, target_handle_);
  if (send_ != nullptr) plugin_.net().closeSend(send_);
  if (receive_ != nullptr) plugin_.net().closeRecv(receive_);
  if (listen_ != nullptr) plugin_.net().closeListen(listen_);
}

void NullPair::message(std::uint64_t number, int vain_tests) {
  // No two neighbours alike, and no two messages.
  for (std::size_t at = 0; at < source_.size(); ++at) source_[at] = static_cast<unsigned char>(number * 31 + at * 7);
  void *receiving = nullptr, *sending = nullptr;
  require_success(
      meshbed_cost_irecv(plugin_.net(), receive_, target_.data(), target_.size(), target_handle_, &receiving), "irecv");
  for (int test = 0; test < vain_tests; ++test) {
    require_success(meshbed_cost_test_in_vain(plugin_.net(), receiving),
                    "test of a receive for which nothing was sent");
  }
  require_success(meshbed_cost_isend(plugin_.net(), send_, source_.data(), source_.size(), source_handle_, &sending),
                  "isend");
  require_success(meshbed_cost_test_send(plugin_.net(), sending), "test of the send");
  require_success(meshbed_cost_test_receive(plugin_.net(), receiving), "test of the receive");
  require(source_ == target_, "other bytes arrived than were sent");
}

}  // namespace meshbed::cost
