#pragma once
// The receiving end. A (grouped) receive posts one empty receive work request, for the immediate value that will end
// it, and writes one clear-to-send entry per part into the sender's ring. Receives complete in the order of posting.
// Cost of a receive: one ibv_post_recv, one ibv_post_send, one ibv_poll_cq.
//
// While the sender has enough announced receives, further ones are held back and written together later
// (receive_announce.cpp).

#include <array>
#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "plugin/net/link/connection.h"
#include "plugin/net/link/flusher.h"
#include "plugin/net/rdma/stripe_ledger.h"
#include "plugin/net/recover/liveness_check.h"
#include "plugin/net/wire/socket.h"
#include "plugin/verbs/registration.h"

namespace meshbed::net {

/// Without default values: irecv() has an array of eight and fills in those that it needs.
struct ReceivePart {
  void* data;
  std::size_t size_bytes;  // the largest message that may come
  int tag;
  Memory* memory;  // may be nullptr where size_bytes is 0
  void* event;     // the profiler's parent event; nullptr: none
};

class Service;
class ProcessLinks;

/// Whether something is held back, for the CTS timer: the first look marks it as seen, the next one finds it overdue.
enum class Held : std::uint8_t { kNothing, kSomething, kSeen };

/// An end of a QP link, or of a rail, whose port is up.
struct ReceivingEnd {
  std::uint64_t session = 0;
  LocalEnd local;
  WireEnd own;  // as it was when it was connected
  WireEnd sender;
  bool stands = false;  // its port still has the GID
};

class ReceiveConnection : public Connection {
 public:
  static constexpr ObjectKind kKind = ObjectKind::kReceive;
  /// Clear-to-send writes are signalled this often: seldom enough to be free, often enough to drain the send queue.
  static constexpr std::uint64_t kSignalEvery = 32;
  /// The bytes that the fastest port carries while a clear-to-send travels: 4 us at 400 Gb/s.
  static constexpr std::uint64_t kEnoughBytes = 192 * 1024;
  /// The keys for its rails and its entries, and the same for the receives that were held back before it.
  static constexpr std::uint64_t kWritesOfReceive = 4;
  static Result<std::unique_ptr<ReceiveConnection>> create(LocalEnd local, const ConnectionSettings& settings);
  ~ReceiveConnection() override;

  /// After the handshake: from now on the sender may resume it (resume_server.h).
  void enroll(ProcessLinks& process);
  /// The control connection of the first handshake. If a relay is at its other end, it stays open to signal the close
  /// of this connection: without it the relay would find out only by exhausting its retries, and mistake our close for
  /// a failed cable. If the sender has resumed the connection meanwhile, the newer control connection stays. Called by
  /// the listener; takes its turn itself, because the service may be resuming the connection at the same time.
  void keep_first_control(Socket socket);
  // --- by the process's service, which has the turn ---
  /// The control connection of the handshake by which the sender resumed; it replaces the previous one.
  void keep_control(Socket socket);
  /// Resumes on a new QP link. The sender has opened its end, `sender`, and dialled `local`. Takes in everything that
  /// the old QP link has delivered, joins a new QP link for everything that is still awaited, and returns its
  /// description. nullopt: the old QP link is not flushed yet, call again. An error: not on this QP link, or failed().
  Result<std::optional<WireEnd>> take_up(const LocalEnd& local, const WireEnd& sender, std::uint8_t mtu);
  /// The memory of all receives and flushes in progress. Register it on the new QP link's device before take_up(), as
  /// this may take long. The caller drops it.
  std::vector<Memory*> hold_awaited_memory();
  /// All clear-to-send entries below have been served.
  std::uint64_t served() const { return oldest_entry_; }
  /// The sender's new QP link is connected too: announces the awaited receives again.
  void announce_anew();
  /// Returns whether something is held back, and announces it if the previous look has found it already. Takes its turn
  /// itself.
  Held look_at_held();
  bool over() const { return failed(); }
  /// Adds the ends of this connection whose senders are on the same cable, with whether the senders can still reach
  /// them, by `nics`. On the service's thread only, which alone changes the data that it reads.
  void list_ends(const std::vector<Nic>& nics, std::vector<ReceivingEnd>& ends);
  /// Opens our end of a rail. The sender's end is `sender`, beside the QP link whose queue pair at the sender has the
  /// number `sender_qp_link`. An error: no rail on this path.
  Result<WireEnd> lay_rail(std::size_t number, std::uint32_t sender_qp_link, const LocalEnd& local,
                           const WireEnd& sender, std::uint8_t mtu);
  /// The sender knows our end too: from now on entries carry the memory keys for this rail.
  void use_rail(std::size_t number, std::uint32_t sender_qp_link);
  std::uint64_t session() const { return session_; }
  /// The sender has resumed it on another QP link. Any thread.
  bool was_taken_up() const { return taken_up_.load(std::memory_order_relaxed); }

  /// One request for all parts (1..8). nullptr: not now, 256 parts are outstanding; call again.
  Result<Request*> post(std::span<const ReceivePart> parts);

  /// Call it after a receive into GPU memory. The request completes when the GPU sees the bytes of this and of every
  /// earlier part. nullptr: flushing is switched off. `data` is one of the parts, with at least one byte.
  Result<Request*> flush(void* data, Memory& memory);
  Result<void> expect_device_memory() override;

 private:
  ReceiveConnection(std::unique_ptr<QpLink> qp_link, const ConnectionSettings& settings);
  void completed(const ibv_wc& completion) override;
  void flushed(const ibv_wc& completion) override;
  void rail_completed(std::size_t rail, const ibv_wc& completion) override;
  void rail_flushed(std::size_t rail, const ibv_wc& completion) override;
  bool can_resume() const override;
  std::optional<bool> waits_longer() override;
  std::string obstacle() const override { return liveness_check_ != nullptr ? liveness_check_->why() : ""; }
  /// Only the sender resumes a connection; this repeats the lost reads of flushes once the port is back.
  void resume() override;
  void polled(int count) override;
  void qp_link_lost() override;
  void closing() override;
  void probe() override;
  /// Only a relay asks for notices of clear-to-sends.
  bool is_relayed() const override { return peer().wants_notice; }
  void describe(ConnectionState& state) override;
  RequestState describe(const Request& request) override;
  std::uint64_t next_group() const override { return next_entry_; }
  static QpLinkShape shape_on(const verbs::Device& device);
  bool await(const Request& request);

  // --- flushes (receive_flush.cpp) ---
  void advance_flushes() override;
  /// True for GPU memory that was registered with another connection of this device: its bytes, too, must be flushed
  /// through every device that they arrive by.
  bool needs_flusher(std::span<const ReceivePart> parts) const;
  /// For the QP link's device, and for the rails' devices if they have a queue pair to spare.
  Result<void> open_flushers();
  /// The flusher for the device of `local`, with its present GID.
  Result<void> open_flusher(const LocalEnd& local);
  void open_rail_flusher(const QpLink& rail);
  /// nullptr: there is none.
  Flusher* flusher_on(const verbs::Device& device) const;
  /// Whether a flush covers what this rail writes to the GPU. If its device's port was down, checks whether it is back.
  bool can_flush(const QpLink& rail);
  [[gnu::cold, gnu::noinline]] bool reopen(Flusher& lost, const QpLink& rail);
  /// Leaves all devices except the QP link's: nothing is written through them from now on.
  void leave_devices();
  bool start_flush(Request& request);
  bool read_by(std::size_t index, Request& request);
  void confirm_read(std::size_t index, Request& request);
  void lose_flusher(Flusher& flusher, const ibv_wc& completion);
  void lose_rail_flusher(Flusher& flusher, const Error& why);
  bool stands_on(const Flusher& flusher) const { return &flusher.device() == &device(); }
  template <typename Action>
  void for_each_flush(Action action) {
    pool_.for_each_in_use([&](Request& request) {
      if (request.flushes && !request.done) action(request);
    });
  }
  /// After the connection moved to another QP link.
  Result<void> move_flushers();
  /// After the connection was resumed.
  void resume_flushes();

  Result<void> prepare_to_leave_for(const LocalEnd& local);
  template <typename Action>
  void for_each_awaited_memory(Action action) {
    for (Memory* memory : memories_) {
      if (memory != nullptr) action(*memory);
    }
    for_each_flush([&](Request& request) { action(*request.memory); });
  }
  bool copy_ring(const QpLink& from, const QpLink& to);
  /// The QP link's memory: we stage clear-to-sends in it, and the peer writes sizes.
  const verbs::RegisteredBuffer& ring() { return qp_link().memory(); }

  bool has_room(std::size_t parts) const;
  /// nullptr, or what is wrong with them.
  const char* problem_with(std::span<const ReceivePart> parts);
  [[gnu::cold, gnu::noinline]] Error refuse(std::span<const ReceivePart> parts, const char* problem);
  void stage(std::span<const ReceivePart> parts, std::uint32_t slot);
  /// The rails over which each part came, besides the QP link.
  using RailsOfParts = std::array<std::uint32_t, kMaxGroup>;
  bool take_sizes(Request& request, std::uint32_t immediate, RailsOfParts& rails);
  /// The peer's report of a message is invalid: fails, and returns false.
  [[gnu::cold, gnu::noinline]] bool disbelieve(const char* problem);
  [[gnu::cold, gnu::noinline]] bool disbelieve(std::uint32_t size_bytes, std::uint32_t capacity_bytes);
  void complete(Request& request);

  // --- clear-to-sends (receive_announce.cpp) ---
  bool may_hold_back() const {
    const std::uint64_t announced = told_entry_ - oldest_entry_, held = next_entry_ - told_entry_;
    return held <= announced && (announced - 1) * entry_bytes_ >= kEnoughBytes && service_ != nullptr &&
           !peer().wants_notice;
  }
  bool holds_back() const { return told_entry_ != next_entry_; }
  void hold_back();
  /// Announces what is staged, which must not be empty. Inlined: mostly it is the receive that is being posted.
  [[gnu::always_inline]] bool announce_staged() {
    const std::uint32_t slot = slot_of(told_entry_);
    const std::size_t parts = next_entry_ - told_entry_;
    if (staged_keys_ && !announce_keys(slot, parts)) return false;
    if (!announce(slot, parts)) return false;
    told_entry_ = next_entry_;
    held_.store(Held::kNothing, std::memory_order_relaxed);
    return true;
  }
  bool announce(std::uint32_t slot, std::size_t parts) {
    return write_to_sender(slot * sizeof(ClearToSend), parts * sizeof(ClearToSend));
  }
  bool write_to_sender(std::uint64_t offset, std::size_t size_bytes);

  void release_parts(std::uint32_t slot, std::size_t parts);

  // --- rails (receive_rails.cpp) ---
  bool await_stripe(std::size_t rail);
  bool awaits_anything() const;
  /// Bit per rail over which this part may have come.
  std::uint32_t rails_of(const Request& request, std::size_t part);
  RailKeys& keys_of(std::uint32_t slot) { return *(ring().as<RailKeys>() + kRailKeysAt / sizeof(RailKeys) + slot); }
  /// Returns false if no part may be striped; the sender then needs no keys, as it checks their sequence.
  bool stage_keys(std::span<const ReceivePart> parts, std::uint32_t slot);
  bool announce_keys(std::uint32_t slot, std::size_t parts);
  void complete_what_is_there();

  std::uint64_t next_entry_ = 0;
  std::uint64_t oldest_entry_ = 0;  // not received yet
  std::uint64_t told_entry_ = 0;    // entries below are announced, those from here on staged and held back
  /// Bytes of one entry, estimated from the first parts of the last receives: it falls at once and grows by doubling.
  std::uint64_t entry_bytes_ = 0;
  bool staged_keys_ = false;  // the receives that are held back may be striped
  std::atomic<Held> held_{Held::kNothing};
  std::uint64_t announced_ = 0;  // clear-to-send writes posted
  std::uint64_t announced_done_ = 0;
  std::uint64_t depth_ = 0;
  std::uint64_t awaited_ = 0;                               // receive work requests without a completion
  std::array<std::uint32_t, kMaxRails> stripes_awaited_{};  // the same on rails
  std::uint32_t rails_ = 0;                                 // bit per rail that both ends may use
  std::unique_ptr<StripeLedger> ledger_;                    // where there is a rail
  ProcessLinks* process_ = nullptr;                         // once it is enrolled
  Service* service_ = nullptr;                              // likewise, where there is one
  std::atomic<bool> taken_up_{false};
  bool changes_chain_ = false;  // suspended because its sender changes to another chain
  std::uint64_t session_ = 0;
  std::unique_ptr<LivenessCheck> liveness_check_;  // while it is unknown whether the sender still exists
  // One for each device on which it has had a QP link or a rail, because bytes that came over any of them may still be
  // on their way to the GPU. None before GPU memory is expected.
  std::vector<std::unique_ptr<Flusher>> flushers_;
  Deadline next_port_look_ = Deadline::after_ms_or_never(1);
  std::array<Memory*, kRingSlots> memories_{};  // held while in flight
  Socket control_;                              // to the previous relay, if there is one
};

}  // namespace meshbed::net
