#include "plugin/net/relay_service.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "plugin/base/log.h"
#include "plugin/net/transport.h"

namespace meshbed::net {
namespace {

/// While a chain is being made its steps have deadlines and retries of their own.
constexpr int kHandshakePauseMs = 1;
/// After finalize(): others may still send through us.
constexpr std::int64_t kLingerNs = 1'000'000'000;
constexpr int kLingerPauseMs = 20;

}  // namespace

Result<std::unique_ptr<RelayService>> RelayService::start(Transport& transport) {
  std::unique_ptr<RelayService> service(new RelayService(transport));
  for (const auto& device : transport.devices()) {
    auto channel = verbs::CompletionChannel::create(*device);
    if (!channel) return channel.error();
    service->channels_.push_back(std::move(*channel));
  }
  service->desk_ = std::make_unique<RelayDesk>(transport, service->channels_);
  if (auto opened = service->desk_->open(); !opened) return opened.error();
  if (auto opened = service->scout_.open(service->desk_->port()); !opened) return opened.error();
  if (::pipe2(service->wake_, O_NONBLOCK | O_CLOEXEC) != 0) {
    return Error{.code = ErrorCode::kSystem,
                 .scope = Scope::kJob,
                 .text = std::string("no pipe for the relay service: ") + std::strerror(errno),
                 .os_errno = errno};
  }
  service->thread_ = std::thread([raw = service.get()] { raw->run(); });
  return service;
}

RelayService::~RelayService() {
  stop_at_ns_ = now_ns();
  stop_.store(true);
  if (thread_.joinable()) {
    const char byte = 0;
    // A full pipe has woken the thread already.
    if (::write(wake_[1], &byte, 1) < 0) MESHBED_LOG(LogLevel::kTrace, "relay: %s", std::strerror(errno));
    thread_.join();
  }
  circuits_.clear();
  for (const int end : wake_) {
    if (end >= 0) ::close(end);
  }
}

void RelayService::run() {
  while (!may_stop()) {
    move_circuits();
    // What arrives after this look wakes us; what came before is found by it.
    for (const auto& circuit : circuits_) circuit->arm();
    move_circuits();
    wait();
  }
}

void RelayService::move_circuits() {
  bool moved = true;
  while (moved) {
    moved = false;
    for (const auto& circuit : circuits_) moved = circuit->progress() || moved;
    if (moved) last_move_ns_ = now_ns();
    std::erase_if(circuits_, [](const auto& circuit) { return circuit->over(); });
  }
}

bool RelayService::may_stop() const {
  if (!stop_.load()) return false;
  const bool idle = circuits_.empty() && !desk_->busy();
  return idle || now_ns() - std::max(last_move_ns_, stop_at_ns_) > kLingerNs;
}

void RelayService::wait() {
  watched_.clear();
  const auto watch = [this](int descriptor) { watched_.push_back({.fd = descriptor, .events = POLLIN, .revents = 0}); };
  watch(wake_[0]);
  for (const verbs::CompletionChannel& channel : channels_) watch(channel.descriptor());
  for (const int descriptor : scout_.descriptors()) watch(descriptor);
  watch(desk_->descriptor());
  for (const auto& circuit : circuits_) {
    for (const int descriptor : circuit->descriptors()) watch(descriptor);
  }
  const std::size_t first_socket = 1 + channels_.size();
  desk_->watch(watched_);
  const int pause_ms = stop_.load() ? kLingerPauseMs : desk_->busy() ? kHandshakePauseMs : -1;
  if (::poll(watched_.data(), watched_.size(), pause_ms) < 0) return;
  if (watched_[0].revents != 0) {
    char bytes[8];
    (void)!::read(wake_[0], bytes, sizeof bytes);  // it has done its work
  }

  for (std::size_t device = 0; device < channels_.size(); ++device) {
    if (watched_[1 + device].revents != 0) channels_[device].drain();
  }
  const auto ready = [this](std::size_t index) { return watched_[index].revents != 0; };
  const std::size_t first_control = first_socket + scout_.descriptors().size() + 1;
  for (std::size_t index = 0; index < circuits_.size(); ++index) {
    if (ready(first_control + 2 * index) || ready(first_control + 2 * index + 1)) circuits_[index]->look_at_controls();
  }
  if (ready(first_socket) || ready(first_socket + 1)) scout_.advance();
  if (ready(first_control - 1) || desk_->busy()) desk_->advance(circuits_);
}

}  // namespace meshbed::net
