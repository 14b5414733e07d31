#pragma once
// Two ranks on the two nodes of a pair, each with one queue pair, connected to one another: what most tests of verbs
// need. Both ranks are threads of one child process (run_world) and call the real ibv_* verbs of the drop-in library.

#include <infiniband/verbs.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/engine/world.h"
#include "sim/verbs/verbs_host.h"
#include "tests/support/run_world.h"

namespace meshbed::test {

/// How a side sets up its queue pair. Defaults connect cleanly.
struct Setup {
  int device = 0;            // of those that the node has
  std::uint32_t depth = 64;  // of the send and of the receive queue
  std::uint32_t sges = 4;
  std::uint32_t inline_bytes = 256;
  int cqe = 256;
  bool signal_all = true;
  unsigned access =
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  unsigned qp_access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  ibv_mtu path_mtu = IBV_MTU_4096;
  std::uint8_t gid_index = 1;  // 0: RoCE v1, 1: RoCE v2, both of the one address
  std::uint8_t timeout = 14, retry_cnt = 7, rnr_retry = 7, min_rnr_timer = 12;
  std::uint8_t max_rd_atomic = 16, max_dest_rd_atomic = 16;
  std::uint32_t sq_psn = 0x123456;
  std::optional<std::uint32_t> rq_psn;       // the peer's sq_psn where it is not set
  std::optional<std::uint32_t> dest_qp_num;  // the peer's where it is not set
  ibv_qp_state until = IBV_QPS_RTS;          // connect no further than this
  bool channel = false;                      // a completion channel on the queue
  std::size_t memory_bytes = 1 << 20;
};

class Pair;

/// One rank's side. Objects are its own; addresses are what the peer writes to.
struct Side {
  int index = 0;
  Pair* pair = nullptr;
  Setup setup;
  sim::Process* process = nullptr;
  ibv_context* context = nullptr;
  ibv_comp_channel* channel = nullptr;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  ibv_qp* qp = nullptr;
  ibv_mr* mr = nullptr;
  std::vector<char> memory;
  union ibv_gid gid {};

  Side& peer() const;
  void barrier() const;  // waits for the other side
  void open();           // device to QP in RESET
  int to_init() const;
  int to_rtr() const;
  int to_rts() const;
  void connect() const;  // as far as setup.until

  ibv_sge sge(std::size_t offset, std::uint32_t length) const;
  ibv_send_wr write_wr(std::uint64_t id, ibv_sge* sge) const;  // to the peer's memory, at the same offset
  int post(ibv_send_wr wr) const;
  int post_write(std::uint64_t id, std::size_t offset, std::uint32_t length, unsigned flags = 0) const;
  int post_send(std::uint64_t id, std::size_t offset, std::uint32_t length, unsigned flags = 0) const;
  int post_read(std::uint64_t id, std::size_t offset, std::uint32_t length, unsigned flags = 0) const;
  int post_recv(std::uint64_t id, std::size_t offset, std::uint32_t length) const;
  /// Polls until a completion is there; a failed CHECK and a status of -1 after 1000 simulated seconds.
  ibv_wc wait() const;
  /// Completions that are there after `duration` more.
  std::vector<ibv_wc> drain_after(Picoseconds duration) const;
  ibv_qp_state state() const;
};

Picoseconds now();
void sleep(Picoseconds duration);
std::string libibverbs_path();

struct PairOptions {
  models::Cluster cluster = ring_cluster(2);
  sim::FabricKind fabric = sim::FabricKind::kChunk;
  std::function<void(Setup& setup, int index)> configure = [](Setup&, int) {};
  sim::MessageSink* sink = nullptr;
  std::uint64_t seed = 1;
  sim::VerbsCost cost{};
  bool meet_at_end = true;  // no side closes its objects before the other is done
};

/// Runs body(side) in both ranks once they are open and connected.
WorldResult run_pair(const PairOptions& options, const std::function<void(Side&)>& body);
inline WorldResult run_pair(const std::function<void(Side&)>& body) { return run_pair({}, body); }
/// As above, with one body for each side.
WorldResult run_pair(const PairOptions& options, const std::function<void(Side&)>& first,
                     const std::function<void(Side&)>& second);

/// Threads meet here: the last one to come wakes the others.
class Handshake {
 public:
  explicit Handshake(int count) : count_(count) {}
  void arrive();

 private:
  int count_;
  int generation_ = 0;
  std::vector<sim::Thread*> waiting_;
};

class Pair {
 public:
  Side sides[2];
  Handshake handshake{2};
};

}  // namespace meshbed::test
