#pragma once
// End: one rank's side of a contract test. It opens the rank's one device, connects a queue pair to the peer's, posts
// and polls, and writes down what it saw beside what is promised.
//
// Created for one test and used by its one thread. What a test needs and does not get (a device, memory, the peer)
// breaks it: std::runtime_error.

#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/contract/suite/handshake.h"
#include "tests/contract/suite/text.h"

namespace meshbed::contract {

/// What soft-RoCE does instead of what is promised, and why: the place in Linux 6.1 or in rdma-core 44 that does it.
/// A test fails as well where soft-RoCE does not depart any more.
struct SoftRoce {
  std::string seen;
  std::string why;
};

inline constexpr unsigned kRemoteAccess = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
inline constexpr unsigned kAllAccess = IBV_ACCESS_LOCAL_WRITE | kRemoteAccess;

inline constexpr unsigned kSignalled = IBV_SEND_SIGNALED;

// What a transition needs (ibv_modify_qp(3)).
inline constexpr int kInitMask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
inline constexpr int kRtrMask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
inline constexpr int kRtsMask =
    IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_TIMEOUT;

enum class GidKind { kIpv4, kIpv6, kLinkLocal };

/// How an end sets itself up. The defaults connect cleanly, are patient, and signal only what asks for it.
struct Setup {
  std::uint32_t send_depth = 16, recv_depth = 16, sges = 4, inline_bytes = 64;
  int cqe = 64;
  bool signal_all = false;
  bool channel = false;  // a completion channel
  unsigned access = kAllAccess;
  unsigned qp_access = kRemoteAccess;
  std::size_t memory_bytes = 64 * 1024;
  ibv_mtu path_mtu = IBV_MTU_1024;
  GidKind gid = GidKind::kIpv4;
  std::uint8_t timeout = 18, retry_cnt = 6, rnr_retry = 7, min_rnr_timer = 12;  // 1.1 s, retries, for ever, 0.64 ms
  std::uint8_t max_rd_atomic = 4, max_dest_rd_atomic = 4;
  std::uint32_t rq_psn_shift = 0;                 // added to the PSN that the peer starts with
  std::optional<std::uint32_t> dest_qp_num = {};  // the peer's where it is not set
};

/// A send work request; by default a signalled write of the memory's first 64 bytes to the same place at the peer.
struct Send {
  ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE;
  std::uint64_t id = 1;
  std::uint32_t bytes = 64;
  std::size_t from = 0, to = 0;  // offsets in the local and the peer's memory
  unsigned flags = kSignalled;
  std::uint32_t imm = 0;
  std::optional<std::uint32_t> lkey = {}, rkey = {};  // the memory's where they are not set
  std::uint64_t compare_add = 0, swap = 0;
  std::optional<std::vector<ibv_sge>> list = {};  // in place of `from` and `bytes`
};

struct Receive {
  std::uint64_t id = 1;
  std::uint32_t bytes = 4096;
  std::size_t to = 0;
  std::optional<std::uint32_t> lkey = {};
  std::optional<std::vector<ibv_sge>> list = {};
};

/// What the peer must know of an end.
struct Peer {
  ibv_gid gid;
  std::uint32_t qp_num, psn, rkey;
  std::uint64_t address;
};

class End {
 public:
  explicit End(const ContractPlace& place);
  ~End();
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  /// Rank 0: as a rule the one that posts to the other.
  bool active() const { return place_.rank == 0; }
  int rank() const { return place_.rank; }

  // --- what is written down ---
  void sees(const std::string& what, const std::string& seen, const std::string& promised);
  void sees(const std::string& what, const std::string& seen, const std::string& promised, const SoftRoce& instead);

  // --- the peer ---
  Handshake& handshake() { return handshake_; }
  /// Both ends are here; what either did before is done.
  void meet() { handshake_.meet(); }

  // --- the way to a connection; each does what is missing before it ---
  void open_device();
  void open(const Setup& setup = {});     // memory, queues, a queue pair in RESET
  void exchange();                        // with the peer: what both must know
  void connect(const Setup& setup = {});  // both in RTS
  int to_init() const;
  int to_rtr() const;
  int to_rts() const;
  int modify_once(ibv_qp_attr attr, int mask) const;
  /// The kernel gives the peer one second to answer for its address, and a busy machine may need more: asks again.
  int modify(const ibv_qp_attr& attr, int mask) const;
  int to_state(ibv_qp_state state) const;  // with no other attribute
  ibv_qp_attr rtr_attributes() const;
  ibv_qp_attr rts_attributes() const;
  ibv_qp_init_attr qp_init() const;

  // --- work requests and their completions ---
  int post(const Send& send) const;
  int post(const Receive& receive) const;
  /// The next `count` completions, ", " between them; "nothing" for one that does not come.
  std::string next(int count = 1) const;
  /// What is there now, without waiting.
  std::string there() const;
  /// "nothing", or what came after all.
  std::string silence() const;
  std::string state() const;
  /// "0 RTS": what ibv_modify_qp gave, and the state since.
  std::string moved(int result) const { return answer(result) + " " + state(); }

  // --- events ---
  /// "event", "no event": of the completion channel, waits and acknowledges.
  std::string completion_event() const;
  std::string no_completion_event() const;
  /// The next asynchronous event, acknowledged; "nothing" where none comes.
  std::string event() const;
  std::string no_event() const;
  void plug(bool in) { place_.set_link(place_.host, in ? 1 : 0); }
  std::string port_state() const;
  void wait_for_port(ibv_port_state state) const;

  // --- memory ---
  ibv_sge sge(std::size_t from, std::uint32_t bytes) const;
  /// A pattern that differs with every `seed`.
  void fill(int seed);
  /// "as sent", or the first offset in [from, from + bytes) that is not fill(seed)'s.
  std::string data(int seed, std::size_t from, std::size_t bytes, std::size_t shift = 0) const;
  std::uint64_t word(std::size_t offset) const;
  void set_word(std::size_t offset, std::uint64_t value);

  Setup setup;
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_comp_channel* channel = nullptr;
  ibv_cq* cq = nullptr;
  ibv_qp* qp = nullptr;
  ibv_mr* mr = nullptr;
  std::vector<char> memory;
  std::uint32_t gid_index = 0;
  Peer peer{};

 private:
  ibv_gid own_gid();
  std::string one_event(int patience_ms) const;
  std::string one_completion_event(int patience_ms) const;

  const ContractPlace& place_;
  Handshake handshake_;
};

/// One test: both ends run `body` at the same time, each on its own node.
struct Contract {
  const char* name;    // the promise, as a sentence
  const char* source;  // where it is made
  void (*body)(End& end);
};

/// Throws where a step that the test only builds on fails.
void need(int result, const char* step);
void need(const void* object, const char* step);
ibv_gid parse_gid(const std::string& address);

}  // namespace meshbed::contract
