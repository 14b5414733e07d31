#pragma once
// CaseRank: one of the two ranks of a conformance case, with the building blocks of cases: connections, checked
// buffers, messages, and rendezvous with the other rank. All waits are limited by kPatience, so that a case always
// ends, unless the plugin crashes or blocks.
//
// A violated rule throws CaseFailed; the rank that detects it notifies the other, whose case ends too.

#include <array>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "plugin/coll/transport/transport.h"
#include "testbed/workload/rank_host.h"

namespace meshbed::testbed {

/// In the rank's own time. Longer than the time after which a plugin gives up a peer: NCCL_MESH_CONNECT_TIMEOUT_SEC is
/// 10 s.
inline constexpr Picoseconds kPatience = 30 * kPicosecondsPerSecond;
/// A call must not block NCCL's proxy thread; the limit is generous, because test machines may be slow.
inline constexpr Picoseconds kCallAtMost = kPicosecondsPerSecond;

struct CaseFailed {
  std::string text;
};
/// The other rank has failed: this one's case ends without a finding of its own.
struct PeerFailed {};

/// A handle of the ncclNet table; longer, so that bytes written after its end are detected.
struct CaseHandle {
  static constexpr std::size_t kGuardBytes = 64;
  alignas(16) std::array<std::uint8_t, nccl::kHandleBytes + kGuardBytes> bytes{};
};

/// Memory of a case, filled with a pattern, with guards at both ends. It is kept after a finding: the other
/// rank may still be writing into it.
class CaseBuffer {
 public:
  explicit CaseBuffer(std::uint64_t size_bytes);
  CaseBuffer(const CaseBuffer& other) : bytes_(std::make_unique<Bytes>(*other.bytes_)) {}
  CaseBuffer(CaseBuffer&& other) = default;
  CaseBuffer& operator=(const CaseBuffer&) = delete;
  ~CaseBuffer() {
    if (std::uncaught_exceptions() > 0) static_cast<void>(bytes_.release());
  }
  std::uint8_t* data() { return bytes_->data() + kGuardBytes; }
  std::uint64_t size() const { return bytes_->size() - 2 * kGuardBytes; }
  /// Byte `at` of message `seed`.
  static std::uint8_t pattern(std::uint64_t seed, std::uint64_t at) {
    return static_cast<std::uint8_t>((seed * 0x9e3779b97f4a7c15U + at * 0x2545f4914f6cdd1dU) >> 56U);
  }
  void fill(std::uint64_t seed, std::uint64_t offset, std::uint64_t size_bytes);
  /// The first byte in [offset, offset + size_bytes) that is not message `seed`'s; size_bytes: none.
  std::uint64_t first_wrong(std::uint64_t seed, std::uint64_t offset, std::uint64_t size_bytes) const;
  /// Whether all bytes outside [offset, offset + size_bytes) are unchanged.
  bool untouched_outside(std::uint64_t offset, std::uint64_t size_bytes) const;

 private:
  using Bytes = std::vector<std::uint8_t>;
  static constexpr std::size_t kGuardBytes = 256;
  std::unique_ptr<Bytes> bytes_;
};

/// Both directions to the other rank.
struct CasePair {
  void* send = nullptr;
  void* receive = nullptr;
};

class CaseRank {
 public:
  /// `name`: of the case, the prefix of keys that the ranks publish. The table has been initialised; `symbol`: its
  /// original.
  CaseRank(RankHost& host, coll::NetTable& net, std::string name, void* symbol = nullptr);

  int rank() const { return host_.rank(); }
  bool first() const { return rank() == 0; }
  coll::NetTable& net() { return net_; }
  const std::string& name() const { return name_; }
  /// The plugin's table for another communicator of this process; not initialised.
  std::unique_ptr<coll::NetTable> another_table() const { return coll::wrap_table(net_.version(), symbol_); }
  RankHost& host() { return host_; }
  int devices();
  coll::DeviceProperties properties(int device);
  /// The number of receives in a group that all devices support.
  int group_size();

  /// Reports that the rule cannot be tested here, so that it is not shown as "ok". One rank's report suffices. The case
  /// may go on to test a part of the rule.
  void not_looked_at(const std::string& why) { why_not_looked_at_ = why; }
  const std::string& why_not_looked_at() const { return why_not_looked_at_; }

  /// Throws CaseFailed unless `holds`.
  static void require(bool holds, const std::string& rule);
  /// Throws CaseFailed, with the plugin's own reason, unless the call succeeded.
  static void succeeded(int code, const std::string& call, std::uint64_t warns_before);
  /// Polls until `ready`, which may throw; CaseFailed "WHAT: nothing for 30 s".
  void wait(const std::string& what, const std::function<bool()>& ready);
  /// The duration of `call`, for rules about calls that must not wait.
  Picoseconds time_of(const std::function<void()>& call);

  /// Waits until both ranks have called it.
  void meet(const std::string& point);
  void publish(const std::string& what, const std::string& value);
  std::string await(const std::string& what);
  /// Ends the other rank's case.
  void publish_failure();

  /// A listener on `device`, whose handle is published to the other rank as `what`.
  void* listen(int device, const std::string& what);
  void* listen(int device, CaseHandle& handle);
  /// Connects to the other rank's listener `what`.
  void* connect(int device, const std::string& what);
  void* accept(void* listener);
  CasePair connect_both(int device = 0, int peer_device = 0, const std::string& what = "listener");
  void close(const CasePair& pair);
  void close_listener(void* listener);

  void* register_memory(void* comm, CaseBuffer& buffer);
  void deregister_memory(void* comm, void* handle);

  /// One call; nullptr: not accepted now.
  void* try_send(void* comm, void* data, std::uint64_t size_bytes, int tag, void* handle);
  void* try_receive(void* comm, void* data, std::uint64_t size_bytes, int tag, void* handle);
  void* try_receive_group(void* comm, const std::vector<coll::ReceivePart>& parts);
  /// Calls until it is accepted.
  void* send(void* comm, void* data, std::uint64_t size_bytes, int tag, void* handle);
  void* receive(void* comm, void* data, std::uint64_t size_bytes, int tag, void* handle);
  void* receive_group(void* comm, const std::vector<coll::ReceivePart>& parts);
  bool is_done(void* request, int* sizes = nullptr);
  /// Waits until it is done. Returns the size of its first part.
  std::uint64_t finish(void* request, int* sizes = nullptr);
  void finish_all(const std::vector<void*>& requests);

  /// Sends or receives one message of `size_bytes` of pattern `seed`, with a receive that is `spare_bytes` longer, and
  /// checks size, content, and that nothing else was written.
  void send_one(void* comm, std::uint64_t size_bytes, std::uint64_t seed, int tag = 0);
  void receive_one(void* comm, std::uint64_t size_bytes, std::uint64_t seed, std::uint64_t spare_bytes = 0,
                   int tag = 0);
  /// The same over both directions at once.
  void exchange(const CasePair& pair, std::uint64_t size_bytes, std::uint64_t seed);

 private:
  std::string key(int rank, const std::string& what) const;
  void look_for_failure();

  RankHost& host_;
  coll::NetTable& net_;
  std::string name_;
  void* symbol_;
  std::string why_not_looked_at_;
  int interleaver_ = 0;
};

}  // namespace meshbed::testbed
