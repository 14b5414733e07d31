#include "cli/cost/null_pair.h"

#include <dlfcn.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <stdexcept>

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

std::string g_last_warning;  // of the plugin, which talks through one function for all

void keep_warning(int level, unsigned long, const char*, int, const char* format, ...) {
  if (level != nccl::kNcclLogWarn) return;
  std::array<char, 1024> text;
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text.data(), text.size(), format, arguments);
  va_end(arguments);
  g_last_warning = text.data();
}

void require(bool good, const char* what) {
  if (good) return;
  throw std::runtime_error(std::string(what) + (g_last_warning.empty() ? "" : ": " + g_last_warning));
}

void require_success(int result, const char* what) {
  if (result == nccl::kNcclSuccess) return;
  require(false, result == nccl::kNcclInProgress ? (std::string(what) + " had nothing to show").c_str() : what);
}

}  // namespace

NullPair::NullPair(const std::string& plugin, std::size_t message_bytes)
    : source_(message_bytes), target_(message_bytes) {
  library_ = ::dlopen(plugin.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) throw std::runtime_error(std::string("cannot load the plugin: ") + ::dlerror());
  net_ = static_cast<const NetV11*>(::dlsym(library_, "ncclNetPlugin_v11"));
  require(net_ != nullptr, "the plugin has no ncclNetPlugin_v11");
  nccl::CommConfig config{.trafficClass = nccl::kTrafficClassUndefined};
  require_success(net_->init(&context_, 1, &config, &keep_warning, nullptr), "init");
  int devices = 0;
  require_success(net_->devices(&devices), "devices");
  require(devices == 1, "there is not just the null wire's device: is another libibverbs.so.1 in its place?");
  connect();
  require_success(net_->regMr(send_, source_.data(), source_.size(), nccl::kPtrHost, &source_handle_), "regMr");
  require_success(net_->regMr(receive_, target_.data(), target_.size(), nccl::kPtrHost, &target_handle_), "regMr");
}

void NullPair::connect() {
  std::array<char, nccl::kHandleBytes> handle{};
  require_success(net_->listen(context_, 0, handle.data(), &listen_), "listen");
  for (int round = 0; send_ == nullptr || receive_ == nullptr; ++round) {
    nccl::NetDeviceHandle *sender = nullptr, *receiver = nullptr;
    if (send_ == nullptr) require_success(net_->connect(context_, 0, handle.data(), &send_, &sender), "connect");
    if (receive_ == nullptr) require_success(net_->accept(listen_, &receive_, &receiver), "accept");
    require(round < kConnectRounds, "the two ends did not find each other within 30 s");
    ::poll(nullptr, 0, kRoundMs);
  }
}

NullPair::~NullPair() {
  if (source_handle_ != nullptr) net_->deregMr(send_, source_handle_);
  if (target_handle_ != nullptr) net_->deregMr(receive_, target_handle_);
  if (send_ != nullptr) net_->closeSend(send_);
  if (receive_ != nullptr) net_->closeRecv(receive_);
  if (listen_ != nullptr) net_->closeListen(listen_);
  if (context_ != nullptr) net_->finalize(context_);
}

void NullPair::message(std::uint64_t number, int vain_tests) {
  // No two neighbours alike, and no two messages.
  for (std::size_t at = 0; at < source_.size(); ++at) source_[at] = static_cast<unsigned char>(number * 31 + at * 7);
  void *receiving = nullptr, *sending = nullptr;
  require_success(meshbed_cost_irecv(*net_, receive_, target_.data(), target_.size(), target_handle_, &receiving),
                  "irecv");
  for (int test = 0; test < vain_tests; ++test) {
    require_success(meshbed_cost_test_in_vain(*net_, receiving), "test of a receive for which nothing was sent");
  }
  require_success(meshbed_cost_isend(*net_, send_, source_.data(), source_.size(), source_handle_, &sending), "isend");
  require_success(meshbed_cost_test_send(*net_, sending), "test of the send");
  require_success(meshbed_cost_test_receive(*net_, receiving), "test of the receive");
  require(source_ == target_, "other bytes arrived than were sent");
}

}  // namespace meshbed::cost
