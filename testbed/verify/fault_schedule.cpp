#include "testbed/verify/fault_schedule.h"

#include <fmt/format.h>

#include <cstddef>
#include <set>
#include <vector>

#include "plugin/base/prng.h"
#include "testbed/scenario/scenario.h"

namespace meshbed::testbed {
namespace {

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : prng_(mix64(seed ^ 0x6661756c7473ULL)) {}
  int between(int least, int most) {
    return least + static_cast<int>(prng_.below(static_cast<std::uint64_t>(most - least + 1)));
  }
  bool once_in(int times) { return between(1, times) == 1; }
  template <typename T, std::size_t N>
  T one_of(const T (&choices)[N]) {
    return choices[prng_.below(N)];
  }
  template <typename T>
  const T& one_of(const std::vector<T>& choices) {
    return choices[prng_.below(choices.size())];
  }

 private:
  Prng prng_;
};

struct Cabling {
  const char* kind;
  int nodes;
  int rails;
};

constexpr Cabling kCablings[] = {{"ring", 2, 1}, {"ring", 2, 2}, {"ring", 2, 2}, {"ring", 2, 3},
                                 {"ring", 3, 1}, {"ring", 3, 2}, {"ring", 4, 1}, {"line", 3, 1},
                                 {"line", 3, 2}, {"line", 4, 1}, {"star", 4, 1}, {"full-mesh", 4, 1}};

constexpr Cabling kRailed[] = {{"ring", 2, 2}, {"ring", 2, 2}, {"ring", 2, 3}, {"ring", 3, 2}, {"line", 3, 2}};

/// Those that end, or leave another way, some more often than others.
constexpr FaultKind kDrawn[] = {FaultKind::kCableDown, FaultKind::kCableDown, FaultKind::kCableDown,
                                FaultKind::kCableDown, FaultKind::kPortDown,  FaultKind::kNodeStop,
                                FaultKind::kNodeStop,  FaultKind::kLoss,      FaultKind::kDelay,
                                FaultKind::kReorder,   FaultKind::kRate,      FaultKind::kAddressChange};

/// The survivors' time, in seconds: each finds out 5 s after the one before it at most, whatever else goes wrong, and
/// gives up after NCCL_MESH_FAILOVER_TIMEOUT_SEC, 30.
constexpr int kSurvivorsTime_s = 300;

/// In which a connection of reconnect with several cables has been made and has moved most of what it moves.
constexpr int kConnectsAndMoves_ns = 3'000'000;

/// One schedule, drawn top to bottom. One draw a statement: the order of a call's arguments is the compiler's choice,
/// and a schedule must not be.
class Schedule {
 public:
  Schedule(std::uint64_t seed, Schedules which) : seed_(seed), gpu_(which == Schedules::kGpuRails), draw_(seed) {}

  std::string text() {
    const Cabling cabling = gpu_ ? draw_.one_of(kRailed) : draw_.one_of(kCablings);
    nodes_ = cabling.nodes;
    const std::string topology = fmt::format("[topology]\nkind = \"{}\"\nnodes = {}\nrails = {}\n{}", cabling.kind,
                                             cabling.nodes, cabling.rails, gpu_ ? "gpu_direct = \"dma-buf\"\n" : "");
    cluster_ = parse_scenario(topology + "[workload]\nkind = \"idle\"\n", "schedule", {}).cluster;
    iterations_ = draw_.between(2, 5);
    const std::string environment = environment_text();
    const std::string workload = gpu_ || draw_.once_in(5) ? reconnect() : collective();
    std::string faults;
    for (int left = draw_.between(1, 4); left > 0; --left) faults += fault();
    std::string expect = "[expect]\nwrong = 0\n";
    // Threads that only sleep for longer than ten minutes are a hang for the simulator.
    if (!reconnects_ && late_by_s_ < 600 && draw_.once_in(10)) {
      const int node = draw_.between(0, nodes_ - 1);
      faults += fmt::format("\n[[fault]]\nkind = \"node_kill\"\ntarget = \"node{}\"\n{}", node, moment());
      expect =
          fmt::format("[limits]\ntime = \"{}s\"\n\n{}lost = \"node{}\"\n", kSurvivorsTime_s + late_by_s_, expect, node);
    }
    return fmt::format("# meshbed fuzz --faults{} --print {}\nseed = {}\n\n{}\n{}\n{}{}\n{}", gpu_ ? " --gpu" : "",
                       seed_, seed_, topology, environment, workload, faults, expect);
  }

 private:
  std::string environment_text() {
    const int timeout = draw_.between(8, 11);
    const int stripe_bytes = gpu_ ? draw_.one_of({128, 4'096, 131'072}) : draw_.one_of({0, 128, 4'096, 131'072});
    const int queue_pairs = draw_.between(1, 2);
    return fmt::format(
        "[environment]\nNCCL_IB_TIMEOUT = \"{}\"\nNCCL_MESH_STRIPE_BYTES = \"{}\"\n"
        "NCCL_IB_QPS_PER_CONNECTION = \"{}\"\n",
        timeout, stripe_bytes, queue_pairs);
  }

  std::string collective() {
    const char* const op = draw_.one_of(
        {"all_reduce", "all_reduce", "all_gather", "reduce_scatter", "alltoall", "alltoall", "sendrecv", "broadcast"});
    const int bytes = draw_.one_of({4'096, 65'536, 400'000, 2'000'000});
    const int channels = draw_.between(1, 3);
    const int root = draw_.between(0, nodes_ - 1);
    const int shift = draw_.between(1, nodes_ - 1);
    std::string text = fmt::format(
        "[workload]\ncollective = \"{}\"\nalgorithm = \"ring\"\nbytes = {}\niterations = {}\nwarmup = 1\n"
        "channels = {}\nroot = {}\nshift = {}\n",
        op, bytes, iterations_, channels, root, shift);
    if (draw_.once_in(6)) {
      const int by_ms = draw_.one_of({100, 2'000, 40'000, 900'000});
      const int rank = draw_.between(0, nodes_ - 1);
      const int iteration = draw_.between(0, iterations_ - 1);
      late_by_s_ = by_ms / 1'000;
      text += fmt::format("late_by = \"{}ms\"\nlate_rank = {}\nlate_iteration = {}\n", by_ms, rank, iteration);
    }
    return text;
  }

  std::string reconnect() {
    reconnects_ = true;
    const int bytes = gpu_ ? draw_.one_of({16, 4'096, 65'536, 400'000}) : draw_.one_of({16, 4'096, 65'536});
    const int parts = draw_.between(1, 8);
    const int receives = draw_.one_of({1, 3, 12});
    return fmt::format("[workload]\nkind = \"reconnect\"\nbytes = {}\niterations = {}\nreceives = {}\nparts = {}\n{}",
                       bytes, iterations_, receives, parts, gpu_ ? "memory = \"gpu\"\n" : "");
  }

  /// When a fault begins: within the moments in which messages are under way, and now and then between them; now and
  /// then while the first connections are made.
  std::string moment() {
    std::string text;
    if (!draw_.once_in(8)) {
      text = fmt::format("point = \"iteration\"\niteration = {}\n", draw_.between(0, iterations_ - 1));
    }
    const bool at_once = draw_.once_in(4);
    return text + fmt::format("at = \"{}ns\"\n", at_once ? 0 : draw_.between(1, gpu_ ? kConnectsAndMoves_ns : 400'000));
  }

  /// The connections of a collective stand when its iterations begin.
  bool is_connected(const std::string& when) const {
    return !reconnects_ && when.find("iteration") != std::string::npos;
  }

  /// Durations shorter and longer than the retries; once a schedule one so long that a peer's liveness is checked.
  std::string duration(bool connected) {
    if (!long_one_ && draw_.once_in(12)) {
      long_one_ = true;
      return fmt::format("duration = \"{}s\"\n", connected ? draw_.one_of({2, 8, 25}) : 2);
    }
    const int about_us = draw_.one_of({10, 300, 5'000, 20'000, 80'000});
    return fmt::format("duration = \"{}us\"\n", about_us + draw_.between(0, 500));
  }

  /// Once or twice, each for good or not. `head`: what begins either; `own`: what the port of `node` has.
  std::string address_changes(const std::string& head, models::IpPrefix own, int node) {
    std::string text;
    for (int left = draw_.once_in(3) ? 2 : 1; left > 0; --left) {
      own.address.bytes[3] = static_cast<std::uint8_t>(50 + 50 * left + node);
      const std::string when = moment();
      text += head + when + fmt::format("address = \"{}\"\n", to_text(own));
      if (!draw_.once_in(2)) text += duration(is_connected(when));
    }
    return text;
  }

  /// A [[fault]] that is not for good.
  std::string fault() {
    const FaultInfo& kind = info_of(draw_.one_of(kDrawn));
    const bool readdresses = kind.kind == FaultKind::kAddressChange;
    const std::size_t cable = static_cast<std::size_t>(draw_.between(0, static_cast<int>(cluster_.cables.size()) - 1));
    const int node = draw_.between(0, nodes_ - 1);
    const models::PortRef end = draw_.once_in(2) ? cluster_.cables[cable].a : cluster_.cables[cable].b;
    // Where both ends of a cable got other addresses at once, neither would know where the other one is.
    if (readdresses && !readdressed_.insert(cable).second) return "";
    const models::Node& owner = cluster_.at(end.node);
    const models::Nic& nic = owner.nic(end.nic);
    const std::string head = fmt::format("\n[[fault]]\nkind = \"{}\"\ntarget = \"{}\"\n", kind.name,
                                         kind.target == FaultTarget::kNode   ? fmt::format("node{}", node)
                                         : kind.target == FaultTarget::kPort ? owner.name + "/" + nic.device
                                                                             : cluster_.cables[cable].name);
    if (readdresses) return address_changes(head, nic.addresses.front(), end.node);
    const std::string when = moment();
    std::string text = head + when;
    // A connection that is being made has NCCL_MESH_CONNECT_TIMEOUT_SEC, 10 s.
    text += duration(is_connected(when));
    switch (kind.amount) {
      case AmountUnit::kFraction:
        return text + fmt::format("amount = {}\n", draw_.one_of({0.001, 0.02, 0.2}));
      case AmountUnit::kTime:
        return text + fmt::format("amount = \"{}us\"\n", draw_.between(1, 500));
      case AmountUnit::kRate:
        return text + fmt::format("amount = \"{}Gb/s\"\n", draw_.between(1, 50));
      case AmountUnit::kNone:
        break;
    }
    return text;
  }

  std::uint64_t seed_;
  bool gpu_;
  Draw draw_;
  models::Cluster cluster_;
  int nodes_ = 0, iterations_ = 0, late_by_s_ = 0;
  bool reconnects_ = false, long_one_ = false;
  std::set<std::size_t> readdressed_;  // cables
};

}  // namespace

std::string fault_schedule(std::uint64_t seed, Schedules which) { return Schedule(seed, which).text(); }

}  // namespace meshbed::testbed
