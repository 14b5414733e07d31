#pragma once
// Replay: one rank issues NCCL's recorded calls to any net plugin's v11 table, with generated and checked payloads.
//
// Threads as in NCCL: main (init, devices, properties, finalize), service (listen, connect, accept, registration,
// close) and progress (isend, irecv, test). Each issues its calls in the recorded order, with the freedom of NCCL's own
// threads: pending connections do not delay calls on other objects, and requests complete in any order. A "done" before
// the next call in a recording implies no order: the recorded machines had different clocks, and waiting for it can
// deadlock ranks where NCCL did not. The order that NCCL's bootstrap enforces between ranks is kept: no rank finalizes
// before all ranks have made all their connections (NCCL 2.30,
// src/transport.cc, ncclTransportP2pSetup: "We need to sync ranks here since some ranks might run too fast after
// connection setup").
//
// Message k over listener L has payload(seed, L, k); the receiver generates it again and compares every byte that
// arrived.

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "testbed/scenario/nccl/recording.h"
#include "testbed/workload/rank_host.h"

namespace meshbed::testbed {

/// The results of all ranks of this process.
struct ReplayBoard {
  std::uint64_t seed = 1;
  std::size_t listeners = 0;  // of the recording
  bool stop = false;          // a rank failed: the others stop
  std::uint64_t connections = 0;
  std::uint64_t requests = 0;  // completed
  std::uint64_t sent_bytes = 0;
  std::uint64_t checked_bytes = 0;
  std::uint64_t wrong = 0;  // requests with another size than recorded, or another payload
  std::string first_wrong;
  std::vector<std::uint64_t> data;  // by rank: sum over arrived payloads of XXH3-64, mixed with the payload's
                                    // identity; a sum, because the order of completions is not defined
  Picoseconds started_ps = -1, ended_ps = -1;
  // With a profile of software: the cost of the one launch that a recording represents, and the time from which (all
  // ranks connected) and until which messages were under way.
  std::optional<Picoseconds> launch_ps;
  std::array<Picoseconds, 3> hops_ps{};  // of a message by LL, LL128, Simple: the order of NCCL's own numbers
  Picoseconds messages_from_ps = -1, messages_until_ps = -1;
};

class Replay {
 public:
  /// `other_devices`: the node's number of devices may differ from the recording's; device d is then d % devices.
  Replay(RankHost& host, const RankRecording& calls, ReplayBoard& board, bool other_devices);

  /// All of the rank's calls, from init to finalize.
  Result<void> run(const std::string& plugin_path);

 private:
  /// One end of a connection.
  struct Comm {
    void* handle = nullptr;
    bool sends = false;
    int listener = -1;
    std::uint64_t messages = 0;  // that the recording has for it
    std::uint64_t started = 0;
    std::uint64_t finished = 0;
    std::uint64_t slot_bytes = 0;  // of the payload arena: one slot for each request that may be under way
    std::unique_ptr<std::uint8_t[]> arena;
    void* arena_mr = nullptr;
    std::array<bool, nccl::kMaxRequests> slot_used{};
  };
  struct Request {
    void* handle = nullptr;
    const RecordedCall* call = nullptr;
    std::uint64_t message = 0;  // of its comm
  };
  struct Registration {
    std::unique_ptr<std::uint8_t[]> memory;
    void* handle = nullptr;
  };
  enum class Step { kDone, kNotYet };

  // nccl_replay.cpp: loading, the main thread, what the threads share
  Result<void> open(const std::string& plugin_path);
  Result<void> issue_main(const RecordedCall& call);
  Result<void> count_devices(const RecordedCall& call);
  int device_of(const RecordedCall& call) const { return other_devices_ ? call.device % devices_ : call.device; }
  Result<void> check(int result, const RecordedCall& call, const char* name) const;
  Comm& comm_of(const RecordedCall& call) { return comms_.at(static_cast<std::size_t>(call.comm)); }
  void fail(const Error& error);

  // nccl_replay_service.cpp
  Result<void> run_service();
  Result<void> publish_connected();
  /// Called before finalize: a node that relays between two others must stay until they are connected.
  Result<void> wait_until_all_connected();
  Result<Step> issue_service(const RecordedCall& call);
  Result<Step> connect(const RecordedCall& call);
  Result<Step> accept(const RecordedCall& call);
  Result<void> open_comm(Comm& comm, void* handle, bool sends, const RecordedCall& call);
  Result<Step> close(const RecordedCall& call);
  Result<void> register_memory(const RecordedCall& call);
  Result<void> deregister_memory(const RecordedCall& call);

  // nccl_replay_progress.cpp
  Result<void> run_progress();
  Result<void> launch();
  void set_hop(std::uint32_t protocols);
  Result<Step> issue_progress(const RecordedCall& call);
  Result<bool> poll_requests();
  void check_finished(const Request& request, std::uint64_t size_bytes);

  RankHost& host_;
  const RankRecording& calls_;
  ReplayBoard& board_;
  bool other_devices_;
  int devices_ = 1;
  nccl::NetV11* net_ = nullptr;
  void* context_ = nullptr;
  std::vector<Comm> comms_;
  struct Handle {
    alignas(16) std::array<std::uint8_t, nccl::kHandleBytes> bytes{};
  };
  std::vector<std::optional<Handle>> handles_;  // by listener; published by another rank, once received
  std::vector<void*> listen_comms_;             // by listener; nullptr if it is another rank's, or closed
  std::vector<Registration> registrations_;
  std::vector<Request> requests_;
  std::optional<Error> error_;  // the first of any thread
};

/// The message to which a payload belongs.
struct PayloadKey {
  std::uint64_t seed = 1;  // the run's
  int listener = 0;
  std::uint64_t message = 0;  // over that listener
};
void generate_payload(const PayloadKey& key, std::uint8_t* bytes, std::uint64_t size_bytes);
/// Index of the first byte that differs from generate_payload; `size_bytes` if none does.
std::uint64_t first_wrong_byte(const PayloadKey& key, const std::uint8_t* bytes, std::uint64_t size_bytes);

}  // namespace meshbed::testbed
