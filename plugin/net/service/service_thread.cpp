#include "plugin/net/service/service_thread.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "plugin/base/log.h"
#include "plugin/net/link/process_links.h"

namespace meshbed::net {
namespace {

/// The pause while a chain is being made, whose steps have deadlines and retries of their own.
constexpr int kHandshakePauseMs = 1;
/// The pause while a client has sent no first message or does not read its reply: how often its deadline is checked.
constexpr int kCallerPauseMs = 100;
/// If nothing has moved for this time, which is longer than all retries of a queue pair (7.5 s), the peers that sent
/// through us are gone.
constexpr std::int64_t kQuietNs = 8'000'000'000;
/// After this time the next piece shows that others go on sending. If none comes, their circuits are only ending, which
/// the control connection may report late (TCP retransmits 6 s, then 13 s after a cable was cut).
constexpr std::int64_t kLongestSendingNs = 10'000'000'000;
constexpr std::chrono::milliseconds kWaitPause{5};
/// The ranks of a job end at nearly the same time. A later one can use our relay only as long as this process lives.
constexpr std::int64_t kDeparturesMs = 2000;

}  // namespace

ServiceThread::ServiceThread(ProcessLinks& process, TcpNetwork& tcp, ServiceCalls calls)
    : process_(process),
      tcp_(tcp),
      calls_(std::move(calls)),
      discovery_(process),
      agreement_(process, discovery_),
      resume_server_(process),
      cts_timer_(process.sessions()),
      address_notifier_(process) {}

Result<std::unique_ptr<ServiceThread>> ServiceThread::open(ProcessLinks& process, TcpNetwork& tcp, ServiceCalls calls) {
  std::unique_ptr<ServiceThread> service(new ServiceThread(process, tcp, std::move(calls)));
  for (const auto& device : process.devices()) {
    auto channel = verbs::CompletionChannel::create(*device);
    if (!channel) return channel.error();
    service->channels_.push_back(std::move(*channel));
  }
  service->desk_ = std::make_unique<RelayServer>(process, service->channels_);
  if (auto opened = service->desk_->open(); !opened) return opened.error();
  // Relays and failover are for RDMA; the state socket also serves TCP.
  if (process.config().flag(Variable::kDisableRdma)) {
    service->discovery_problem_ = handshake_error("RDMA is off: NCCL_MESH_DISABLE_RDMA=1");
  } else if (!process.config().flag(Variable::kEnableRelay)) {
    service->discovery_problem_ = handshake_error("relays are off: NCCL_MESH_ENABLE_RELAY=0");
  } else if (auto opened = service->discovery_.open(service->port()); !opened) {
    MESHBED_WARN("no relay here: %s", opened.error().text.c_str());
    service->discovery_problem_ = opened.error();
  }
  if (::pipe2(service->wake_, O_NONBLOCK | O_CLOEXEC) != 0) {
    return Error{.code = ErrorCode::kSystem,
                 .scope = Scope::kJob,
                 .text = std::string("no pipe for the service: ") + std::strerror(errno),
                 .os_errno = errno};
  }
  service->open_state_socket();
  return service;
}

/// The state socket is optional: a failure is only logged.
void ServiceThread::open_state_socket() {
  const std::string& setting = process_.config().text(Variable::kStateSocket);
  if (setting == "0") return;
  std::string problem;
  auto door = StateSocket::open_somewhere(setting, process_.pid(), problem);
  if (!problem.empty()) {
    // Warn, because the user would look for it at the requested place.
    MESHBED_WARN("NCCL_MESH_STATE_SOCKET=%s: %s: using %s", setting.c_str(), problem.c_str(),
                 door ? (*door)->path().c_str() : "none");
  }
  if (door) {
    state_socket_ = std::move(*door);
    MESHBED_INFO("state at %s: meshbed state shows it", state_socket_->path().c_str());
  } else {
    MESHBED_INFO("no state socket: %s", door.error().text.c_str());
  }
}

void ServiceThread::start() {
  thread_ = std::thread([this] { run(); });
}

ServiceThread::~ServiceThread() {
  stop_.store(true);
  if (thread_.joinable()) {
    wake();
    thread_.join();
  }
  circuits_.clear();
  for (const int end : wake_) {
    if (end >= 0) ::close(end);
  }
}

void ServiceThread::wake() {
  const char byte = 0;
  // If the pipe is full, the thread is being woken already.
  if (::write(wake_[1], &byte, 1) < 0) MESHBED_LOG(LogLevel::kTrace, "service: %s", std::strerror(errno));
}

void ServiceThread::run() {
  while (!stop_.load(std::memory_order_relaxed)) {
    const bool moving = move_circuits();
    note_use();
    look_around(moving);
  }
}

bool ServiceThread::move_circuits() {
  bool moved = false, moving = false, ended = false;
  for (const auto& circuit : circuits_) {
    if (circuit->has_news()) moved = circuit->progress() || moved;
    moving = moving || circuit->has_news();
    ended = ended || circuit->over();
  }
  if (ended) {
    std::erase_if(circuits_, [](const auto& circuit) { return circuit->over(); });
    list_holds_ = false;
  }
  // Only the service's thread counts; a waiting thread reads the counts by the clock.
  if (moved) moves_.store(moves_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (ended) ends_.store(ends_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return moving;
}

bool ServiceThread::wait_for_others() {
  if (!wait_for_circuits()) return false;
  const bool abandoned = in_use_.load();  // circuits remain on which nothing moves
  if (!wait_for_departures()) return false;
  // Processes that have left since may have made new circuits.
  return abandoned || wait_for_circuits();
}

bool ServiceThread::wait_for_departures() {
  const Deadline end = Deadline::after_ms_or_never(kDeparturesMs);
  while (discovery_.is_needed()) {
    if (end.passed()) return false;
    std::unique_lock lock(use_mutex_);
    use_over_.wait_for(lock, kWaitPause, [this] { return !discovery_.is_needed(); });
  }
  return true;
}

bool ServiceThread::wait_for_circuits() const {
  const std::int64_t begun_ns = now_ns();
  std::int64_t quiet_since_ns = begun_ns;
  std::uint64_t moves = moves_.load(std::memory_order_relaxed), ends = ends_.load(std::memory_order_relaxed);
  for (;;) {
    const std::int64_t now = now_ns();
    const std::uint64_t moves_by_now = moves_.load(std::memory_order_relaxed);
    const std::uint64_t ends_by_now = ends_.load(std::memory_order_relaxed);
    const bool sends = moves_by_now != std::exchange(moves, moves_by_now);
    if (ends_by_now != std::exchange(ends, ends_by_now) || sends) quiet_since_ns = now;
    if (!in_use_.load() || now - quiet_since_ns > kQuietNs) return true;
    if (now - begun_ns > kLongestSendingNs + (sends ? 0 : kQuietNs)) return false;
    std::unique_lock lock(use_mutex_);
    use_over_.wait_for(lock, kWaitPause, [this] { return !in_use_.load(); });
  }
}

void ServiceThread::list_what_to_watch() {
  watched_.clear();
  const auto watch = [this](int descriptor) { watched_.push_back({.fd = descriptor, .events = POLLIN, .revents = 0}); };
  watch(wake_[0]);
  for (const verbs::CompletionChannel& channel : channels_) watch(channel.descriptor());
  for (const int descriptor : discovery_.descriptors()) watch(descriptor);
  watch(desk_->descriptor());
  for (const auto& circuit : circuits_) {
    for (const int descriptor : circuit->descriptors()) watch(descriptor);
  }
  first_event_ = watched_.size();
  for (const auto& device : process_.devices()) watch(device->event_descriptor());
  desk_->watch(watched_);
  resume_server_.watch(watched_);
  address_notifier_.watch(watched_);
  tcp_.watch(watched_);
  first_of_state_ = watched_.size();
  if (state_socket_) state_socket_->watch(watched_);
  const bool shaking_hands = desk_->connects() || resume_server_.busy() || address_notifier_.busy();
  const bool has_callers =
      desk_->busy() || desk_->has_callers() || tcp_.lingers() || (state_socket_ && state_socket_->busy());
  others_wait_ = shaking_hands || has_callers;
  pause_ms_ = shaking_hands ? kHandshakePauseMs : has_callers ? kCallerPauseMs : -1;
  next_look_ = Deadline::after_ms_or_never(pause_ms_);
  if (!others_wait_ && !circuits_.empty()) pause_ms_ = RelayEnd::kLookPauseMs;
  if (cts_timer_.busy() && (pause_ms_ < 0 || pause_ms_ > cts_timer_.pause_ms())) {
    pause_ms_ = cts_timer_.pause_ms();
  }
  list_holds_ = true;
}

void ServiceThread::look_around(bool moving) {
  if (!list_holds_) list_what_to_watch();
  int others = ::poll(watched_.data(), watched_.size(), moving ? 0 : pause_ms_);
  if (others < 0) return;
  for (std::size_t device = 0; device < channels_.size(); ++device) {
    if (!is_ready(1 + device)) continue;
    channels_[device].drain([](void* end) { static_cast<RelayEnd*>(end)->wake(); });
    --others;
  }
  // This runs once a piece: clients that wait are served only when another descriptor is ready or the time has come.
  if (others > 0 || (others_wait_ && next_look_.passed())) look_at_others();
  listen_to_silence();
  if (!cts_timer_.busy()) return;
  const int pause_ms = cts_timer_.pause_ms();
  cts_timer_.advance();
  list_holds_ = list_holds_ && cts_timer_.busy() && cts_timer_.pause_ms() == pause_ms;
}

void ServiceThread::listen_to_silence() {
  if (circuits_.empty() || !next_listening_.passed()) return;
  next_listening_ = Deadline::after_ms_or_never(RelayEnd::kLookPauseMs);
  for (const auto& circuit : circuits_) circuit->listen_to_silence();
}

void ServiceThread::look_at_others() {
  list_holds_ = false;
  std::array<char, 16> calls{};
  while (is_ready(0) && ::read(wake_[0], calls.data(), calls.size()) == static_cast<ssize_t>(calls.size())) continue;
  const std::size_t first_socket = 1 + channels_.size();
  const std::size_t first_control = first_socket + discovery_.descriptors().size() + 1;
  for (std::size_t index = 0; index < circuits_.size(); ++index) {
    const std::size_t upstream = first_control + 2 * index;
    if (is_ready(upstream) || is_ready(upstream + 1)) circuits_[index]->look_at_controls();
  }
  if (is_ready(first_socket) || is_ready(first_socket + 1)) {
    discovery_.advance(agreement_);
    // A process that wait_for_departures() waits for may have left.
    const std::lock_guard lock(use_mutex_);
    use_over_.notify_all();
  }
  if (is_ready(first_control - 1) || desk_->busy() || desk_->has_callers()) desk_->advance(circuits_, arrivals_);
  for (Arrival& arrival : arrivals_) resume_server_.take(std::move(arrival));
  arrivals_.clear();
  if (resume_server_.busy()) resume_server_.advance();
  bool told = false;
  for (std::size_t device = 0; device < channels_.size(); ++device) {
    if (is_ready(first_event_ + device)) told = read_events(*process_.devices()[device]) || told;
  }
  if (told) address_notifier_.look();
  if (address_notifier_.busy()) address_notifier_.advance();
  tcp_.sweep();
  calls_.drop_abandoned();
  answer_for_state();
  note_use();
}

void ServiceThread::note_use() {
  const bool used = in_use();
  if (in_use_.load(std::memory_order_relaxed) == used) return;
  const std::lock_guard lock(use_mutex_);
  in_use_.store(used);
  use_over_.notify_all();
}

void ServiceThread::answer_for_state() {
  const auto has_news = [](const pollfd& one) { return one.revents != 0; };
  const auto begin = watched_.begin() + static_cast<std::ptrdiff_t>(first_of_state_);
  if (state_socket_ && (state_socket_->busy() || std::any_of(begin, watched_.end(), has_news))) {
    state_socket_->advance([this] {
      ProcessState state = calls_.state();
      state.circuits = circuits();
      return to_json(state);
    });
  }
}

std::vector<CircuitState> ServiceThread::circuits() const {
  std::vector<CircuitState> states;
  for (const auto& circuit : circuits_) states.push_back(circuit->state());
  return states;
}

bool ServiceThread::read_events(const verbs::Device& device) {
  bool any = false;
  while (const auto event = device.next_event()) {
    MESHBED_INFO("%s port %u: %s", device.name().c_str(), event->port, ibv_event_type_str(event->type));
    process_.note_event();
    any = true;
  }
  return any;
}

}  // namespace meshbed::net
