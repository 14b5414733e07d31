// Neighbours in a ring of ranks repeatedly connect, exchange messages and close. Thousands of connections reveal leaks,
// and the effect of faults on short connections.
//
// Nomenclature: part - one message of `bytes`; receive - a (grouped) receive of `parts` parts, whose tags are their
// numbers. The sender starts the parts of each receive at another part, so that only tags give the destination.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "plugin/coll/transport/plugin_log.h"
#include "testbed/scenario/fault_board.h"
#include "testbed/scenario/placement.h"
#include "testbed/workload/pattern.h"
#include "testbed/workload/plugin_lines.h"
#include "testbed/workload/rank_table.h"
#include "testbed/workload/reconnect_objects.h"
#include "testbed/workload/workload.h"

namespace meshbed::testbed {
namespace {

struct MeetingBoard {
  std::uint64_t connections = 0;
  std::uint64_t checked = 0, wrong = 0;
  std::string first_wrong;
  std::int64_t descriptors_left = 0;  // more than after the first tenth of the connections, in this process
  Picoseconds duration_ps = 0;
};

/// The number of open descriptors; each verbs context, completion channel and socket has one.
std::int64_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
}

/// The messages that a rank sends and receives on one connection.
struct Buffers {
  std::vector<float> out, in;
};

/// The memory of messages that the GPU sends and receives. nullptr: the buffers themselves.
struct GpuBuffers {
  std::unique_ptr<GpuMemory> out, in;
};

float* floats_of(const std::unique_ptr<GpuMemory>& gpu, std::vector<float>& host) {
  return gpu != nullptr ? static_cast<float*>(gpu->address()) : host.data();
}

/// One rank's connections, one after the other.
class Reconnecting {
 public:
  Reconnecting(RankHost& host, coll::NetTable& net, const Workload& workload, Buffers& buffers, MeetingBoard& board)
      : host_(host),
        net_(net),
        board_(board),
        part_floats_(workload.bytes / sizeof(float)),
        parts_(static_cast<std::size_t>(workload.parts)),
        receives_(static_cast<std::size_t>(workload.receives)),
        out_(buffers.out),
        in_(buffers.in) {
    // Empty messages need registered memory, too.
    out_.resize(receives_ * parts_ * std::max<std::size_t>(part_floats_, 1));
    in_.resize(out_.size());
  }

  /// Puts messages into GPU memory. Call before the first connection.
  Result<void> move_to_gpu() {
    gpu_ = {.out = host_.gpu_memory(out_.size() * sizeof(float)), .in = host_.gpu_memory(in_.size() * sizeof(float))};
    if (gpu_.out != nullptr && gpu_.in != nullptr) return ok();
    return Error{
        .code = ErrorCode::kInvalidArgument, .scope = Scope::kJob, .text = "memory = \"gpu\": this world has no GPUs"};
  }

  Result<void> once(int number) {
    std::array<char, nccl::kHandleBytes> handle{};
    void* listener = nullptr;
    if (auto done = call("listen", net_.listen(0, handle.data(), &listener)); !done) return done;
    const auto key = [number](int rank) { return fmt::format("reconnect {} {}", number, rank); };
    // Our own handle is for the previous rank.
    if (auto sent = host_.publish(key(host_.rank()), {handle.data(), handle.size()}); !sent) return sent;
    const int next = (host_.rank() + 1) % host_.ranks();
    if (auto found = await_handle(key(next), handle); !found) return found;
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

  /// Lets others run while requests are under way.
  Result<void> wait(bool waits) {
    if (!waits) return ok();
    if (host_.others_failed()) {
      return Error{.code = ErrorCode::kClosed, .scope = Scope::kJob, .text = "another rank has failed"};
    }
    host_.idle("reconnect");
    return ok();
  }

  Result<void> await_handle(const std::string& key, std::array<char, nccl::kHandleBytes>& handle) {
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
    fill(rank_pattern(host_.rank(), 0, salt), coll::DataType::kFloat32, out_.data(), out_.size());
    if (gpu_.out != nullptr) gpu_.out->write(std::as_bytes(std::span(out_)));
    void *out_memory = nullptr, *in_memory = nullptr;
    if (auto done = enlist(send, gpu_.out, out_, &out_memory); !done) return done;
    if (auto done = enlist(receive, gpu_.in, in_, &in_memory); !done) return done;
    std::vector<void*> in, out;  // requests, in the order in which they were posted
    std::size_t received = 0, sent = 0, read = 0;
    while (read < receives_ || sent < receives_ * parts_) {
      if (auto done = post_receives(receive, in_memory, in); !done) return done;
      if (auto done = post_sends(send, out_memory, out); !done) return done;
      if (auto done = finish(in, received, parts_); !done) return done;
      if (auto done = read_received(receive, in_memory, received, read); !done) return done;
      if (auto done = finish(out, sent, 1); !done) return done;
      if (auto fine = wait(read < receives_ || sent < receives_ * parts_); !fine) return fine;
    }
    const int source = (host_.rank() + host_.ranks() - 1) % host_.ranks();
    const std::uint64_t wrong =
        count_wrong(rank_pattern(source, 0, salt), coll::DataType::kFloat32, in_.data(), received_floats());
    if (wrong > 0 && board_.wrong == 0) board_.first_wrong = fmt::format("rank {}, connection {}", host_.rank(), salt);
    board_.wrong += wrong;
    board_.checked += received_floats();
    if (auto done = call("deregMr", net_.deregister_memory(send, out_memory)); !done) return done;
    return call("deregMr", net_.deregister_memory(receive, in_memory));
  }

  std::size_t received_floats() const { return receives_ * parts_ * part_floats_; }

  Result<void> enlist(void* comm, const std::unique_ptr<GpuMemory>& gpu, std::vector<float>& host, void** memory) {
    const std::uint64_t bytes = host.size() * sizeof(float);
    if (gpu == nullptr) return call("regMr", net_.register_memory(comm, host.data(), bytes, memory));
    return call("regMrDmaBuf", net_.register_dma_buf(comm, gpu->address(), bytes, 0, gpu->descriptor(), memory));
  }

  using Group = std::array<coll::ReceivePart, nccl::kMaxGroupedReceives>;
  Group group_of(std::size_t receive, void* memory) {
    Group group;
    for (std::size_t part = 0; part < parts_; ++part) {
      group[part] = {.data = floats_of(gpu_.in, in_) + (receive * parts_ + part) * part_floats_,
                     .size_bytes = part_floats_ * sizeof(float),
                     .tag = static_cast<int>(part),
                     .handle = memory};
    }
    return group;
  }

  /// Counts completed receives whose bytes are visible to their reader. For the GPU each one is flushed, then read as
  /// the GPU sees it.
  Result<void> read_received(void* comm, void* memory, std::size_t received, std::size_t& read) {
    if (gpu_.in == nullptr) read = received;
    for (; read < received; ++read) {
      if (!flushes_) {
        const Group group = group_of(read, memory);
        if (auto done = call("iflush", net_.flush(comm, {group.data(), parts_}, &flush_)); !done) return done;
        flushes_ = true;
      }
      bool is_done = flush_ == nullptr;
      std::uint64_t bytes = 0;
      if (!is_done) {
        if (auto done = call("test", net_.test(flush_, &is_done, &bytes)); !done) return done;
      }
      if (!is_done) return ok();
      flushes_ = false;
      flush_ = nullptr;
      const std::uint64_t size = parts_ * part_floats_ * sizeof(float), begin = read * size;
      const auto taken = std::as_writable_bytes(std::span(in_)).subspan(begin, size);
      for (std::uint64_t at = 0; at < size; ++at) taken[at] = std::byte{gpu_.in->seen(begin + at)};
    }
    return ok();
  }

  /// Posts as many receives as the plugin accepts now.
  Result<void> post_receives(void* comm, void* memory, std::vector<void*>& posted) {
    while (posted.size() < receives_) {
      const Group group = group_of(posted.size(), memory);
      void* request = nullptr;
      if (auto done = call("irecv", net_.receive_group(comm, {group.data(), parts_}, &request)); !done) return done;
      if (request == nullptr) return ok();
      posted.push_back(request);
    }
    return ok();
  }

  Result<void> post_sends(void* comm, void* memory, std::vector<void*>& posted) {
    while (posted.size() < receives_ * parts_) {
      const std::size_t group = posted.size() / parts_, part = (posted.size() + group) % parts_;
      float* const data = floats_of(gpu_.out, out_) + (group * parts_ + part) * part_floats_;
      void* request = nullptr;
      const int code = net_.send(comm, data, part_floats_ * sizeof(float), static_cast<int>(part), memory, &request);
      if (auto done = call("isend", code); !done) return done;
      if (request == nullptr) return ok();
      posted.push_back(request);
    }
    return ok();
  }

  /// Counts completed requests, in order; each of the `parts` must have its full size.
  Result<void> finish(const std::vector<void*>& posted, std::size_t& finished, std::size_t parts) {
    while (finished < posted.size()) {
      std::array<int, nccl::kMaxGroupedReceives> sizes{};
      bool is_done = false;
      if (auto done = call("test", net_.test_group(posted[finished], &is_done, sizes.data())); !done) return done;
      if (!is_done) return ok();
      for (std::size_t part = 0; part < parts; ++part) {
        if (static_cast<std::uint64_t>(sizes[part]) == part_floats_ * sizeof(float)) continue;
        return Error{.code = ErrorCode::kInternal,
                     .scope = Scope::kJob,
                     .text = fmt::format("request {}, part {}: {} bytes instead of {}", finished, part, sizes[part],
                                         part_floats_ * sizeof(float))};
      }
      ++finished;
    }
    return ok();
  }

  RankHost& host_;
  coll::NetTable& net_;
  MeetingBoard& board_;
  std::size_t part_floats_, parts_, receives_;
  std::vector<float>&out_, &in_;
  GpuBuffers gpu_;
  bool flushes_ = false;  // the receive that is read next
  void* flush_ = nullptr;
};

class ReconnectRun final : public WorkloadRun {
 public:
  ReconnectRun(const Scenario& scenario, const BuiltFiles& files, RankRange ranks)
      : plugin_(net_plugin_of(scenario, files)),
        workload_(scenario.workload),
        points_(points_of(scenario)),
        first_rank_(ranks.first),
        buffers_(static_cast<std::size_t>(ranks.count)),
        ranks_(ranks_of(scenario)) {}

  Result<void> run_rank(RankHost& host) override {
    const Result<RankTable> opened = begin_rank_table(host, plugin_, workload_.net_version);
    if (!opened) return opened.error();
    coll::NetTable& net = *opened->table;
    const std::uint64_t warns = coll::warn_count();
    Reconnecting rank(host, net, workload_, buffers_[static_cast<std::size_t>(host.rank() - first_rank_)], board_);
    if (workload_.gpu_memory) {
      if (auto moved = rank.move_to_gpu(); !moved) return moved;
    }
    const Picoseconds began_ps = host.now_ps();
    const int times = workload_.iterations, settled = times / 10;
    std::int64_t before = 0;
    for (int number = 0; number < times; ++number) {
      if (number == settled && host.rank() == first_rank_) before = open_descriptors();
      if (auto met = reach_if_used(host, points_, iteration_point(number)); !met) return met;
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
    result.workload = name_of(WorkloadKind::kReconnect);
    result.bytes = workload_.bytes;
    result.iterations = workload_.iterations;
    result.time_ps = board_.duration_ps / std::max(1, workload_.iterations);
    result.wrong = board_.wrong;
    result.checked = board_.checked;
    result.first_wrong = board_.first_wrong;
    result.connections = board_.connections;
    if (!result.simulation.ended_well()) return;
    result.proofs.push_back(sim::data_right(board_.wrong, board_.checked, workload_.bytes >= sizeof(float)));
    if (result.world.virtual_time) return;  // counts objects instead: prove_times()
    result.proofs.push_back({"nothing is left behind", board_.descriptors_left == 0,
                             fmt::format("{} descriptors more after {} connections than after a tenth of them",
                                         board_.descriptors_left, board_.connections)});
  }

  void prove_times(const Scenario& scenario, RunResult& result) const override {
    const sim::VerbsCounters& verbs = result.simulation.verbs;
    const sim::HostCounters& host = result.simulation.host;
    const ReconnectObjects most = most_reconnect_objects(scenario, ranks_);
    result.proofs.push_back(
        {"nothing is left behind",
         verbs.live_objects == 0 && host.open_descriptors == 0 && verbs.peak_objects <= most.verbs &&
             host.peak_descriptors <= most.descriptors,
         fmt::format("{} verbs objects and {} descriptors at the end, {} and {} at most", verbs.live_objects,
                     host.open_descriptors, verbs.peak_objects, host.peak_descriptors)});
  }

 private:
  PluginLines plugin_lines_;
  std::string plugin_;
  Workload workload_;
  std::set<std::string> points_;
  int first_rank_;
  // Kept until the run has ended: memory that a failed rank leaves registered may still be written to.
  std::vector<Buffers> buffers_;
  int ranks_;
  MeetingBoard board_;
};

}  // namespace

std::unique_ptr<WorkloadRun> make_reconnect(const Scenario& scenario, const BuiltFiles& files, RankRange ranks) {
  return std::make_unique<ReconnectRun>(scenario, files, ranks);
}

}  // namespace meshbed::testbed
