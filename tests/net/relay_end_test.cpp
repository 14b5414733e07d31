// The end of a job on a mesh with relays: in any order of closing, every process ends without a warning, and within a
// millisecond of the last close. The messages are those of an all-to-all, of an all-reduce over a tree and of a gather.
// And the hub of a star whose process finalizes while its leaves still have to connect through it.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "plugin/base/prng.h"
#include "sim/engine/world.h"
#include "sim/fault/inject.h"
#include "tests/net/mesh_ranks.h"
#include "tests/support/walk.h"

namespace relay_end_test {

using namespace meshbed;
using namespace meshbed::test;
using sim::OutcomeKind;

namespace {

using Pairs = std::vector<std::pair<int, int>>;

/// A cable for each pair, with a subnet of its own.
models::Cluster mesh_of(int nodes, const Pairs& cables) {
  const models::Cluster ring = ring_cluster(std::max<int>(static_cast<int>(cables.size()), 3));
  models::Cluster mesh = ring_cluster(std::max(nodes, 3));
  mesh.cables.clear();
  for (models::Node& node : mesh.nodes) node.nics.clear();
  for (std::size_t cable = 0; cable < cables.size(); ++cable) {
    models::Cable laid = ring.cables[cable];
    const auto move_end = [&](models::PortRef& end, int node) {
      models::Nic nic = ring.nodes[static_cast<std::size_t>(end.node)].nics[static_cast<std::size_t>(end.nic)];
      auto& nics = mesh.nodes[static_cast<std::size_t>(node)].nics;
      const std::string function = std::to_string(nics.size());
      nic.device = "rocep1s0f" + function;
      nic.netdev = "enp1s0f" + function + "np" + function;
      end = {node, static_cast<int>(nics.size())};
      nics.push_back(std::move(nic));
    };
    move_end(laid.a, cables[cable].first);
    move_end(laid.b, cables[cable].second);
    mesh.cables.push_back(std::move(laid));
  }
  return mesh;
}

/// Who sends to whom, in both directions where `both`.
struct Exchange {
  Pairs pairs;
  bool both = true;
};

Exchange alltoall(int ranks) {
  Exchange all;
  for (int low = 0; low < ranks; ++low) {
    for (int high = low + 1; high < ranks; ++high) all.pairs.emplace_back(low, high);
  }
  return all;
}
Exchange tree(int ranks) {
  Exchange tree;
  for (int rank = 1; rank < ranks; ++rank) tree.pairs.emplace_back((rank - 1) / 2, rank);
  return tree;
}
Exchange gather(int ranks) {
  Exchange star{.pairs = {}, .both = false};
  for (int rank = 1; rank < ranks; ++rank) star.pairs.emplace_back(0, rank);
  return star;
}

struct Partner {
  int rank = 0;
  bool receives = true, sends = true;
  Comms comms;
  Buffer in, out;
  void *incoming = nullptr, *outgoing = nullptr;
};

void carry(MeshRank& rank, std::vector<Partner>& partners, std::size_t size, const std::string& place, int ranks) {
  for (Partner& one : partners) {
    if (one.receives) one.incoming = rank.receive(one.comms.receive, one.in);
  }
  rank.meet("posted" + place, ranks);
  for (Partner& one : partners) {
    if (one.sends) one.outgoing = rank.send(one.comms.send, one.out, size);
  }
  for (Partner& one : partners) {
    if (one.receives) CHECK(rank.finish(one.incoming) == static_cast<int>(size));
    if (one.sends) CHECK(rank.finish(one.outgoing) == static_cast<int>(size));
  }
}

/// What the ranks of one job share: the end of the last close, and of the last process.
struct End {
  Picoseconds closed = 0, gone = 0;
};

void run_job(MeshRank& rank, const Exchange& exchange, std::uint64_t seed, int ranks, End& end) {
  Prng shared(seed), own(mix64(seed) ^ static_cast<std::uint64_t>(rank.rank()));
  const std::string place = "#" + std::to_string(seed);
  const std::size_t size = 1 + shared.below(200'000);
  const auto messages = 1 + shared.below(3);
  // The ranks of a program close at once, or as its machines let them.
  const std::uint64_t spread_us = shared.chance(0.5) ? 100 : 6'000'000;
  const bool more_posted = shared.chance(0.25);
  rank.start();
  std::vector<Partner> partners;
  for (const auto& [low, high] : exchange.pairs) {
    if (rank.rank() != low && rank.rank() != high) continue;
    Partner one;
    one.rank = rank.rank() == low ? high : low;
    one.receives = exchange.both || rank.rank() == low;
    one.sends = exchange.both || rank.rank() == high;
    one.comms = rank.connect_both(one.rank, 0, place);
    one.in = rank.buffer(one.comms.receive, 200'000, 1);
    one.out = rank.buffer(one.comms.send, 200'000, 2);
    partners.push_back(std::move(one));
  }
  for (std::uint64_t message = 0; message < messages; ++message) {
    carry(rank, partners, size, place + "." + std::to_string(message), ranks);
  }
  for (Partner& one : partners) {
    if (more_posted && one.receives) rank.receive(one.comms.receive, one.in);
  }
  sim::World& world = sim::World::get();
  const auto pause = [&] {
    world.sleep(static_cast<Picoseconds>(own.below(spread_us / partners.size())) * kPicosecondsPerMicrosecond);
  };
  for (std::size_t left = partners.size(); left > 0; --left) {
    std::swap(partners[own.below(left)], partners[left - 1]);
    pause();
    Partner& one = partners[left - 1];
    rank.release(one.comms.receive, one.in);
    rank.release(one.comms.send, one.out);
    const bool sender_first = own.chance(0.5);
    if (sender_first) CHECK(rank.net().closeSend(one.comms.send) == nccl::kNcclSuccess);
    CHECK(rank.net().closeRecv(one.comms.receive) == nccl::kNcclSuccess);
    if (!sender_first) CHECK(rank.net().closeSend(one.comms.send) == nccl::kNcclSuccess);
  }
  end.closed = std::max(end.closed, world.now());
  rank.stop();
  end.gone = std::max(end.gone, world.now());
  CHECK_MESSAGE(rank.warnings().empty(), "seed ", seed, ": ", rank.warnings());
  rank.forget_warnings();
  rank.meet("gone" + place, ranks);
}

/// Jobs of three kinds in turn, several in one world, each with other sizes and other moments of closing.
void run_jobs(const models::Cluster& cluster) {
  constexpr std::uint64_t kSeeds = 1000, kJobsOfWorld = 20;
  const auto ranks = static_cast<int>(cluster.nodes.size());
  const std::vector<Exchange> kinds{alltoall(ranks), tree(ranks), gather(ranks)};
  const std::uint64_t worlds = walks_whole() ? kSeeds / kJobsOfWorld : 1;
  for (std::uint64_t number = 0; number < worlds; ++number) {
    std::vector<End> ends(kJobsOfWorld);
    const auto result = run_mesh(
        cluster,
        [&](MeshRank& rank) {
          for (std::uint64_t job = 0; job < kJobsOfWorld; ++job) {
            const std::uint64_t seed = number * kJobsOfWorld + job;
            End& end = ends[job];
            run_job(rank, kinds[seed % kinds.size()], seed, ranks, end);
            const Picoseconds lasts = end.gone - end.closed;
            if (rank.rank() == 0) CHECK_MESSAGE(lasts < kPicosecondsPerMillisecond, "seed ", seed, ": ", lasts, " ps");
          }
        },
        /*bare=*/true);
    CHECK(result.outcome == OutcomeKind::kFinished);
  }
}

constexpr int kStarNodes = 4, kHub = 0;

models::Cluster star_of_four() { return mesh_of(kStarNodes, {{kHub, 1}, {kHub, 2}, {kHub, 3}}); }

/// A message each way, over a connection of its own.
void exchange_once(MeshRank& rank, int peer, const std::string& place, std::size_t size) {
  const Comms comms = rank.connect_both(peer, 0, place);
  Buffer in = rank.buffer(comms.receive, size, 1), out = rank.buffer(comms.send, size, 2);
  void* incoming = rank.receive(comms.receive, in);
  void* outgoing = rank.send(comms.send, out, size);
  CHECK(rank.finish(incoming) == static_cast<int>(size));
  CHECK(rank.finish(outgoing) == static_cast<int>(size));
  std::size_t wrong = 0;
  for (std::size_t at = 0; at < size; ++at) wrong += in.bytes[at] != MeshRank::pattern(at, 2) ? 1 : 0;
  CHECK(wrong == 0);
  rank.release(comms.receive, in);
  rank.release(comms.send, out);
  rank.close(comms);
}

/// Ranks 1 and 2 have exchanged something through the hub, so that it knows of its leaves, and no rank goes on.
void begin_star(MeshRank& rank, std::size_t size) {
  rank.start();
  rank.meet("started", kStarNodes);
  if (rank.rank() == 1 || rank.rank() == 2) exchange_once(rank, 3 - rank.rank(), "early", size);
  rank.meet("early", kStarNodes);
}

/// By the process's clock, which counts whole nanoseconds.
constexpr Picoseconds kTwoSeconds = 2 * kPicosecondsPerSecond - kPicosecondsPerNanosecond;

bool relay_stays(const MeshRank& rank) { return rank.infos().find("so its relay stays") != std::string::npos; }

/// The hub finalizes; so much later ranks 2 and 3 connect through it for the first time. Rank 1 has gone, or not.
void connect_late(Picoseconds later, std::uint64_t seed) {
  CAPTURE(later);
  CAPTURE(seed);
  Picoseconds last_left = 0;  // began its finalize
  const auto result = run_mesh(
      star_of_four(),
      [&](MeshRank& rank) {
        Prng shared(seed);
        const std::size_t size = 1 + shared.below(200'000);
        const bool first_goes = shared.chance(0.5);
        begin_star(rank, size);
        sim::World& world = sim::World::get();
        const Picoseconds begun = world.now();
        if (rank.rank() >= 2) {
          world.sleep(later);
          exchange_once(rank, 5 - rank.rank(), "late", size);
        }
        const bool waits = rank.rank() >= 2 || (rank.rank() == 1 && !first_goes);
        if (waits) rank.meet("late", first_goes ? 2 : 3);
        if (rank.rank() != kHub) last_left = world.now();
        rank.stop();
        CHECK_MESSAGE(rank.warnings().empty(), rank.warnings());
        if (rank.rank() != kHub) return;
        const Picoseconds took = world.now() - begun;
        if (later < kPicosecondsPerSecond) {
          CHECK(took > later);
          CHECK(world.now() - last_left < kPicosecondsPerMillisecond);
          CHECK_FALSE(relay_stays(rank));
        } else {
          CHECK(took >= kTwoSeconds);
          CHECK(took < 2 * kPicosecondsPerSecond + 100 * kPicosecondsPerMillisecond);
          CHECK(relay_stays(rank));
        }
      },
      /*bare=*/true);
  CHECK(result.outcome == OutcomeKind::kFinished);
}

/// Nothing runs there any more; its links stay.
void freeze(void*, std::uint64_t node) { sim::World::get().kill_node(static_cast<int>(node)); }

void cut_power(void*, std::uint64_t node) { sim::kill_node(sim::World::get(), static_cast<int>(node)); }

/// These ranks die without a word, `how`; the others finalize, and the hub takes so long for it.
void end_beside_dead(const std::vector<int>& dead, void (*how)(void*, std::uint64_t), Picoseconds least,
                     Picoseconds most) {
  const auto result = run_mesh(
      star_of_four(),
      [&](MeshRank& rank) {
        begin_star(rank, 1000);
        sim::World& world = sim::World::get();
        if (std::find(dead.begin(), dead.end(), rank.rank()) != dead.end()) {
          world.sleep(1000 * kPicosecondsPerSecond);
          return;  // never comes here
        }
        if (rank.rank() == kHub) {
          for (const int node : dead) {
            world.after(kPicosecondsPerMillisecond, kHub, how, nullptr, static_cast<std::uint64_t>(node));
          }
        }
        world.sleep(2 * kPicosecondsPerMillisecond);
        const Picoseconds begun = world.now();
        rank.stop();
        const Picoseconds took = world.now() - begun;
        CHECK(took < (rank.rank() == kHub ? most : kPicosecondsPerMillisecond));
        if (rank.rank() == kHub) CHECK(took >= least);
        CHECK_MESSAGE(rank.warnings().empty(), rank.warnings());
      },
      /*bare=*/true);
  CHECK(result.outcome == OutcomeKind::kFinished);
}

}  // namespace

TEST_CASE("the hub of a star finalizes, and leaves that had not begun connect through it: now, or much later") {
  const std::uint64_t seeds = walks_whole() ? 100 : 4;
  for (const Picoseconds later_ms : {0, 10, 500, 5000}) {
    for (std::uint64_t seed = 0; seed < seeds; ++seed) connect_late(later_ms * kPicosecondsPerMillisecond, seed);
  }
}

TEST_CASE(
    "a hub that finalizes waits two seconds for two leaves that died, if their links stay, and for one not at all") {
  end_beside_dead({3}, &freeze, 0, kPicosecondsPerMillisecond);
  end_beside_dead({2, 3}, &freeze, kTwoSeconds, kTwoSeconds + 100 * kPicosecondsPerMillisecond);
  end_beside_dead({2, 3}, &cut_power, 0, kPicosecondsPerMillisecond);
}

TEST_CASE("the end of jobs on a ring of four is quiet and quick (1000 of them in whole walks)") {
  run_jobs(ring_cluster(4));
}

TEST_CASE("the end of jobs on a line of four, where two relays stand in a row") { run_jobs(line_cluster(4)); }

TEST_CASE("the end of jobs on a star of five, where one relays for all") {
  run_jobs(mesh_of(5, {{0, 1}, {0, 2}, {0, 3}, {0, 4}}));
}

TEST_CASE("the end of jobs on five partly meshed nodes") {
  run_jobs(mesh_of(5, {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {1, 3}}));
}

}  // namespace relay_end_test
