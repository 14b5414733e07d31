#pragma once
// The service: the only thread of a process, which serves peers and handles port events. It replies to queries (peer
// discovery), opens circuits (relay server) and moves their pieces, resumes connections that lost their QP link (resume
// server), announces receives that were held back for long (CTS timer), reads the devices' asynchronous events,
// notifies senders of our new addresses (address notifier), and drains TCP connections that are closed here. It sleeps
// unless there is work: completion channels, sockets, events and a pipe wake it.

#include <poll.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "plugin/base/result.h"
#include "plugin/net/connect/cabling_agreement.h"
#include "plugin/net/connect/peer_discovery.h"
#include "plugin/net/connect/service.h"
#include "plugin/net/service/address_notifier.h"
#include "plugin/net/service/cts_timer.h"
#include "plugin/net/service/relay_server.h"
#include "plugin/net/service/resume_server.h"
#include "plugin/net/state/state_socket.h"
#include "plugin/net/tcp/tcp_network.h"
#include "plugin/verbs/completion.h"

namespace meshbed::net {

/// The functions of the transport that the service calls.
struct ServiceCalls {
  std::function<ProcessState()> state;   // of the process, without its circuits
  std::function<void()> drop_abandoned;  // Transport::drop_abandoned()
};

class ServiceThread final : public Service {
 public:
  /// Opens its sockets; the thread waits for start().
  static Result<std::unique_ptr<ServiceThread>> open(ProcessLinks& process, TcpNetwork& tcp, ServiceCalls calls);
  ~ServiceThread() override;
  void start();

  /// Before the end: broadcasts that this process leaves.
  void leave() { discovery_.leave(); }
  /// After leave(): waits until no circuit is left, or nothing has moved or ended for eight seconds, and two seconds
  /// more for processes that may still connect through this one and have not left. Returns false if there are such
  /// processes, or others still send through this process after ten seconds, or circuits still end after eighteen.
  bool wait_for_others();
  /// After leave(): the process is used again.
  void come_back() { discovery_.come_back(); }

  PeerDiscovery* discovery() override { return discovery_problem_ ? nullptr : &discovery_; }
  const Error& discovery_problem() const override { return *discovery_problem_; }
  CablingAgreement* agreement() override { return discovery_problem_ ? nullptr : &agreement_; }
  void wake() override;
  void note_held() override {
    if (cts_timer_.watch()) wake();
  }
  /// The TCP port, on every address, for circuits and resumptions.
  std::uint16_t port() const { return desk_->port(); }
  /// Circuits through this process; call it only while its thread does not run.
  std::vector<CircuitState> circuits() const;

 private:
  ServiceThread(ProcessLinks& process, TcpNetwork& tcp, ServiceCalls calls);
  void run();
  /// Moves the pieces of those circuits whose completion queues have announced something; returns true if there may be
  /// more.
  bool move_circuits();
  /// Handles sockets; sleeps until something happens, unless pieces are moving.
  void look_around(bool moving);
  void list_what_to_watch();
  void look_at_others();
  void listen_to_silence();
  bool is_ready(std::size_t index) const { return watched_[index].revents != 0; }
  /// Returns true if there was one.
  bool read_events(const verbs::Device& device);
  void open_state_socket();
  void answer_for_state();
  void note_use();
  bool wait_for_circuits() const;
  bool wait_for_departures();
  bool in_use() const { return !circuits_.empty() || desk_->makes_chains() || resume_server_.busy(); }

  ProcessLinks& process_;
  TcpNetwork& tcp_;
  const ServiceCalls calls_;
  PeerDiscovery discovery_;
  CablingAgreement agreement_;
  std::optional<Error> discovery_problem_;
  ResumeServer resume_server_;
  CtsTimer cts_timer_;
  AddressNotifier address_notifier_;
  std::vector<verbs::CompletionChannel> channels_;
  std::unique_ptr<RelayServer> desk_;
  std::vector<std::unique_ptr<Circuit>> circuits_;
  std::vector<Arrival> arrivals_;
  std::vector<pollfd> watched_;
  bool list_holds_ = false;   // watched_ and the fields below are up to date
  int pause_ms_ = -1;         // longest sleep; -1: for ever
  bool others_wait_ = false;  // clients wait with deadlines
  Deadline next_listening_ = Deadline::after_ms_or_never(RelayEnd::kLookPauseMs);
  Deadline next_look_;  // when waiting clients are served while pieces are moving
  std::size_t first_event_ = 0, first_of_state_ = 0;
  std::unique_ptr<StateSocket> state_socket_;  // nullptr: none
  int wake_[2] = {-1, -1};
  std::atomic<bool> stop_{false};
  std::atomic<bool> in_use_{false};  // written under use_mutex_
  mutable std::mutex use_mutex_;
  mutable std::condition_variable use_over_;
  std::atomic<std::uint64_t> moves_{0};  // rounds in which a circuit moved something
  std::atomic<std::uint64_t> ends_{0};   // rounds in which a circuit ended
  std::thread thread_;
};

}  // namespace meshbed::net
