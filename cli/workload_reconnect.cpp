// Neighbours in a ring of ranks connect, exchange one message and close, again and again: what a connection leaves
// behind shows after thousands of them.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>

#include "cli/pattern.h"
#include "cli/rank_table.h"
#include "cli/workload.h"
#include "plugin/coll/plugin_log.h"

namespace meshbed::cli {
namespace {

/// Verbs objects or descriptors of a rank at one time.
constexpr std::uint64_t kObjectsPerRank = 32;
struct Board {
  std::uint64_t connections = 0;
  std::uint64_t checked = 0, wrong = 0;
  std::string first_wrong;
  std::int64_t descriptors_left = 0;  // more than after the first tenth of the connections, in this process
  Picoseconds duration_ps = 0;
};

/// Each verbs context, completion channel and socket has one.
std::int64_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
}

/// One rank's connections, one after the other.
class Reconnecting {
 public:
  Reconnecting(RankHost& host, coll::NetTable& net, std::uint64_t bytes, Board& board)
      : host_(host), net_(net), board_(board), out_(bytes / sizeof(float)), in_(out_.size()) {}

  Result<void> once(int number) {
    std::array<char, nccl::kHandleBytes> handle{};
    void* listener = nullptr;
    if (auto done = call("listen", net_.listen(0, handle.data(), &listener)); !done) return done;
    const auto key = [number](int rank) { return fmt::format("reconnect {} {}", number, rank); };
    // Our own handle is for the one before us.
    if (auto told = host_.publish(key(host_.rank()), {handle.data(), handle.size()}); !told) return told;
    const int next = (host_.rank() + 1) % host_.ranks();
    if (auto heard = hear(key(next), handle); !heard) return heard;
    void *send = nullptr, *receive = nullptr;
    while (send == nullptr || receive == nullptr) {
      if (send == nullptr) {
        if (auto done = call("connect", net_.connect(0, handle.data(), &send)); !done) return done;
      }
      if (receive == nullptr) {
        if (auto done = call("accept", net_.accept(listener, &receive)); !done) return done;
      }
      if (auto fine = wait(send == nullptr || receive == nullptr); !fine) return fine;
    }
    if (auto done = call("closeListen", net_.close_listen(listener)); !done) return done;
    if (auto carried = exchange(send, receive, static_cast<std::uint32_t>(number)); !carried) return carried;
    if (auto done = call("closeSend", net_.close_send(send)); !done) return done;
    if (auto done = call("closeRecv", net_.close_receive(receive)); !done) return done;
    ++board_.connections;
    return ok();
  }

 private:
  Result<void> call(const char* name, int code) {
    if (code == nccl::kNcclSuccess) return ok();
    return table_error(net_, name, code, 0);
  }

  /// Lets others run where there is something to wait for.
  Result<void> wait(bool waits) {
    if (!waits) return ok();
    if (host_.others_failed()) {
      return Error{.code = ErrorCode::kClosed, .scope = Scope::kJob, .text = "another rank has failed"};
    }
    host_.idle(this, "reconnect");
    return ok();
  }

  Result<void> hear(const std::string& key, std::array<char, nccl::kHandleBytes>& handle) {
    for (;;) {
      const Result<std::optional<std::string>> value = host_.look_up(key);
      if (!value) return value.error();
      if (*value) {
        std::copy_n((*value)->begin(), std::min((*value)->size(), handle.size()), handle.begin());
        return ok();
      }
      if (auto fine = wait(true); !fine) return fine;
    }
  }

  Result<void> exchange(void* send, void* receive, std::uint32_t salt) {
    const std::uint64_t bytes = out_.size() * sizeof(float);
    fill(rank_pattern(host_.rank(), 0, salt), out_.data(), out_.size());
    void *out_memory = nullptr, *in_memory = nullptr;
    if (auto done = call("regMr", net_.register_memory(send, out_.data(), bytes, &out_memory)); !done) return done;
    if (auto done = call("regMr", net_.register_memory(receive, in_.data(), bytes, &in_memory)); !done) return done;
    void *out = nullptr, *in = nullptr;
    bool sent = false, received = false;
    while (!sent || !received) {
      std::uint64_t size = 0;
      if (in == nullptr) {
        if (auto done = call("irecv", net_.receive(receive, in_.data(), bytes, 0, in_memory, &in)); !done) return done;
      }
      if (out == nullptr) {
        if (auto done = call("isend", net_.send(send, out_.data(), bytes, 0, out_memory, &out)); !done) return done;
      }
      if (in != nullptr && !received) {
        if (auto done = call("test", net_.test(in, &received, &size)); !done) return done;
      }
      if (out != nullptr && !sent) {
        if (auto done = call("test", net_.test(out, &sent, &size)); !done) return done;
      }
      if (auto fine = wait(!sent || !received); !fine) return fine;
    }
    const int source = (host_.rank() + host_.ranks() - 1) % host_.ranks();
    const std::uint64_t wrong = count_wrong(rank_pattern(source, 0, salt), in_.data(), in_.size());
    if (wrong > 0 && board_.wrong == 0) board_.first_wrong = fmt::format("rank {}, connection {}", host_.rank(), salt);
    board_.wrong += wrong;
    board_.checked += in_.size();
    if (auto done = call("deregMr", net_.deregister_memory(send, out_memory)); !done) return done;
    return call("deregMr", net_.deregister_memory(receive, in_memory));
  }

  RankHost& host_;
  coll::NetTable& net_;
  Board& board_;
  std::vector<float> out_, in_;
};

class ReconnectRun final : public WorkloadRun {
 public:
  ReconnectRun(const Scenario& scenario, const BuiltFiles& files, RankRange ranks)
      : plugin_(net_plugin_of(scenario, files)),
        version_(scenario.workload.net_version),
        times_(scenario.workload.iterations),
        bytes_(scenario.workload.bytes),
        first_rank_(ranks.first),
        ranks_(ranks_of(scenario)) {}

  Result<void> run_rank(RankHost& host) override {
    const Result<RankTable> opened = open_rank_table(host, plugin_, version_);
    if (!opened) return opened.error();
    if (opened->table == nullptr) {
      return Error{.code = ErrorCode::kInvalidArgument, .scope = Scope::kJob, .text = plugin_ + ": no such table"};
    }
    coll::NetTable& net = *opened->table;
    const std::uint64_t warns = coll::warn_count();
    if (const int code = net.init(1); code != nccl::kNcclSuccess) return table_error(net, "init", code, warns);
    Reconnecting rank(host, net, bytes_, board_);
    const Picoseconds began_ps = host.now_ps();
    const int settled = times_ / 10;
    std::int64_t before = 0;
    for (int number = 0; number < times_; ++number) {
      if (number == settled && host.rank() == first_rank_) before = open_descriptors();
      if (auto done = rank.once(number); !done) return done;
    }
    if (auto all = host.rendezvous(); !all) return all;
    board_.duration_ps = std::max(board_.duration_ps, host.now_ps() - began_ps);
    if (host.rank() == first_rank_) board_.descriptors_left = open_descriptors() - before;
    if (const int code = net.finalize(); code != nccl::kNcclSuccess) return table_error(net, "finalize", code, warns);
    return ok();
  }

  nlohmann::json findings() const override {
    return {{"connections", board_.connections},
            {"checked", board_.checked},
            {"wrong", board_.wrong},
            {"first_wrong", board_.first_wrong},
            {"descriptors_left", board_.descriptors_left},
            {"duration_ps", board_.duration_ps}};
  }

  void take_in(const nlohmann::json& findings) override {
    board_.connections += findings.at("connections").get<std::uint64_t>();
    board_.checked += findings.at("checked").get<std::uint64_t>();
    if (board_.wrong == 0) board_.first_wrong = findings.at("first_wrong").get<std::string>();
    board_.wrong += findings.at("wrong").get<std::uint64_t>();
    board_.descriptors_left += findings.at("descriptors_left").get<std::int64_t>();
    board_.duration_ps = std::max(board_.duration_ps, findings.at("duration_ps").get<Picoseconds>());
  }

  void conclude(RunResult& result) override {
    result.workload = "reconnect";
    result.bytes = bytes_;
    result.iterations = times_;
    result.time_ps = board_.duration_ps / std::max(1, times_);
    result.wrong = board_.wrong;
    result.checked = board_.checked;
    result.first_wrong = board_.first_wrong;
    result.connections = board_.connections;
    if (!result.simulation.ended_well()) return;
    result.proofs.push_back(sim::data_right(board_.wrong, board_.checked, true));
    if (result.world == "sim") return;  // counts objects instead: prove_times()
    result.proofs.push_back({"nothing is left behind", board_.descriptors_left == 0,
                             fmt::format("{} descriptors more after {} connections than after a tenth of them",
                                         board_.descriptors_left, board_.connections)});
  }

  void prove_times(const Scenario&, RunResult& result) const override {
    const sim::VerbsCounters& verbs = result.simulation.verbs;
    const sim::HostCounters& host = result.simulation.host;
    // Each rank has some of its own, and those of one connection each way.
    const std::uint64_t most = kObjectsPerRank * static_cast<std::uint64_t>(ranks_);
    result.proofs.push_back(
        {"nothing is left behind",
         verbs.live_objects == 0 && host.open_descriptors == 0 && verbs.peak_objects <= most &&
             host.peak_descriptors <= most,
         fmt::format("{} verbs objects and {} descriptors at the end, {} and {} at most", verbs.live_objects,
                     host.open_descriptors, verbs.peak_objects, host.peak_descriptors)});
  }

 private:
  std::string plugin_;
  int version_;
  int times_;
  std::uint64_t bytes_;
  int first_rank_;
  int ranks_;
  Board board_;
};

}  // namespace

std::unique_ptr<WorkloadRun> make_reconnect(const Scenario& scenario, const BuiltFiles& files, RankRange ranks) {
  return std::make_unique<ReconnectRun>(scenario, files, ranks);
}

}  // namespace meshbed::cli
