#include "plugin/coll/plan/cable_load.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <numeric>
#include <vector>

#include "plugin/coll/plan/mesh.h"
#include "plugin/coll/plan/root_trees.h"
#include "plugin/coll/plan/schedule.h"
#include "plugin/coll/plan/torus_shape.h"

namespace meshbed::coll {
namespace {

/// Adds up who sends how much to whom, as shares of request.count elements.
class Adder {
 public:
  explicit Adder(const PlanRequest& request)
      : request_(request), mesh_(*request.mesh), shares_(mesh_.cables.count()), up_shares_(shares_.size()) {}

  CableLoad load(Algorithm algorithm, double mbps_most) {
    switch (algorithm) {
      case Algorithm::kRing:
        ring();
        break;
      case Algorithm::kTree:
        tree();
        break;
      case Algorithm::kHalvingDoubling:
        halving_doubling();
        break;
      case Algorithm::kDirect:
        direct();
        break;
      case Algorithm::kMesh:
        mesh();
        break;
      case Algorithm::kTorus:
        torus();
        break;
    }
    CableLoad load;
    for (std::size_t cable = 0; cable < shares_.size(); ++cable) {
      if (shares_[cable] == 0) continue;
      const double mbps = std::min<double>(mesh_.cables.mbps[cable], mbps_most);
      const double ns_per_byte = shares_[cable] * kNsPerByteAtOneMbps / mbps,
                   up_part = up_shares_[cable] / shares_[cable];
      constexpr double kAlike = 1e-6;
      if (ns_per_byte > load.ns_per_byte * (1 + kAlike)) {
        load.ns_per_byte = ns_per_byte;
        load.first_part = up_part;
      } else if (ns_per_byte > load.ns_per_byte * (1 - kAlike)) {
        load.first_part = std::min(load.first_part, up_part);
      }
    }
    if (algorithm != Algorithm::kMesh) load.first_part = 0.5;
    for (std::size_t rank = 0; rank < mesh_.rank_mbps.size(); ++rank) {
      if (mesh_.rank_mbps[rank] == 0) continue;
      const double ns_per_byte = busier_way(rank) * kNsPerByteAtOneMbps / mesh_.rank_mbps[rank];
      if (ns_per_byte <= load.ns_per_byte) continue;
      load.ns_per_byte = ns_per_byte;
      load.by_rank = true;
    }
    load.most_hops = most_hops_;
    // Round a ring, a slice crosses each pair once.
    load.hops = algorithm == Algorithm::kRing ? static_cast<double>(all_hops_) / pairs_ : most_hops_;
    return load;
  }

 private:
  /// Of what crosses all of the rank's cables: out of it, or into it.
  double busier_way(std::size_t rank) const {
    double out = 0, in = 0;
    for (std::size_t cable = mesh_.cables.begin[rank]; cable < mesh_.cables.begin[rank + 1]; ++cable) {
      out += shares_[cable];
      in += shares_[mesh_.cables.back[cable]];
    }
    return std::max(out, in);
  }
  void flow(int from, int to, double share) {
    if (most_hops_ > kHopsMost && mesh_.next.empty()) return;  // needs a connection that there is not
    const std::vector<int> way = mesh_.way(from, to, kHopsMost);
    int rank = from;
    for (const int next : way) {
      shares_[mesh_.cables.find(rank, next)] += share;
      rank = next;
    }
    const int hops = way.empty() ? kHopsMost + 1 : static_cast<int>(way.size());
    most_hops_ = std::max(most_hops_, hops);
    all_hops_ += hops;
    ++pairs_;
  }
  bool is(Collective collective) const { return request_.collective == collective; }

  void ring() {
    const double n = request_.ranks;
    const bool blocks = is(Collective::kAllGather) || is(Collective::kReduceScatter);
    const bool rooted = is(Collective::kBroadcast) || is(Collective::kReduce);
    const double share = is(Collective::kAllReduce) ? 2 * (n - 1) / n : blocks ? n - 1 : 1;
    for (int rank = 0; rank < request_.ranks; ++rank) {
      const int next = (rank + 1) % request_.ranks;
      if (rooted && (is(Collective::kReduce) ? rank : next) == request_.root) continue;
      flow(rank, next, share);
    }
  }

  void tree() {
    const bool all = is(Collective::kAllReduce);
    for (int rank = 0; rank < request_.ranks; ++rank) {
      for (int which = 0; which < (all ? 2 : 1); ++which) {
        const int parent =
            (all ? paired_tree(which, rank, request_.ranks) : rooted_tree(request_.root, rank, request_.ranks)).parent;
        if (parent < 0) continue;
        const double share = all ? 0.5 : 1;
        if (!is(Collective::kBroadcast)) flow(rank, parent, share);
        if (!is(Collective::kReduce)) flow(parent, rank, share);
      }
    }
  }

  void halving_doubling() {
    const int power = static_cast<int>(std::bit_floor(static_cast<unsigned>(request_.ranks)));
    const int folded = request_.ranks - power;
    for (int pair = 0; pair < folded; ++pair) {
      flow(2 * pair, 2 * pair + 1, 1);
      flow(2 * pair + 1, 2 * pair, 1);
    }
    double share = 1;  // of both, the halving and the doubling
    for (int distance = 1; distance < power; distance *= 2, share /= 2) {
      for (int position = 0; position < power; ++position) {
        flow(halving_rank(position, folded), halving_rank(position ^ distance, folded), share);
      }
    }
  }

  void direct() {
    const double share = is(Collective::kAllReduce) ? 2.0 / request_.ranks : 1;
    for (int from = 0; from < request_.ranks; ++from) {
      for (int to = 0; to < request_.ranks; ++to) {
        if (from != to) flow(from, to, share);
      }
    }
  }

  void torus() {
    const TorusShape& torus = *request_.torus;
    const double whole = is(Collective::kAllReduce) ? 2 : request_.ranks;
    for (int part = 0; part < torus.parts(); ++part) {
      const std::vector<double> sent = sent_by_dimension(torus, part);
      for (int rank = 0; rank < request_.ranks; ++rank) {
        for (int dimension = 0; dimension < torus.dimensions(); ++dimension) {
          const double share = torus.portion(part) * sent[static_cast<std::size_t>(dimension)];
          flow(rank, torus.neighbour(part, dimension, rank, 1), whole * share);
        }
      }
    }
  }

  void mesh() {
    for (const MeshTree& tree : trees_of(request_)) {
      const bool is_rooted = is(Collective::kBroadcast) || is(Collective::kReduce);
      const std::vector<int> from_root = view_of(tree, is_rooted ? request_.root : tree.top).distances;
      const std::vector<int> below = ranks_below(tree, from_root);
      for (int rank = 0; rank < request_.ranks; ++rank) mesh_rank(tree, from_root, below, rank);
    }
  }

  /// [rank] how many ranks are farther away from where distances count from, on branches through it; itself included.
  static std::vector<int> ranks_below(const MeshTree& tree, const std::vector<int>& distances) {
    std::vector<int> order(distances.size()), below(distances.size(), 1);
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int left, int right) {
      return distances[static_cast<std::size_t>(left)] > distances[static_cast<std::size_t>(right)];
    });
    for (const int rank : order) {
      const auto here = static_cast<std::size_t>(rank);
      for (const Branch& branch : tree.branches[here]) {
        const auto there = static_cast<std::size_t>(branch.rank);
        if (distances[there] < distances[here]) below[there] += below[here];
      }
    }
    return below;
  }

  void mesh_rank(const MeshTree& tree, const std::vector<int>& from_root, const std::vector<int>& below, int rank) {
    const auto here = static_cast<std::size_t>(rank);
    const double share = 1.0 / static_cast<double>(trees_of(request_).size());
    const bool gathers = is(Collective::kAllGather), scatters = is(Collective::kReduceScatter);
    for (const Branch& branch : tree.branches[here]) {
      const auto peer = static_cast<std::size_t>(branch.rank);
      const bool to_root = from_root[peer] < from_root[here];
      if (is(Collective::kBroadcast) && to_root) continue;
      if (is(Collective::kReduce) && !to_root) continue;
      // An all_gather's are the blocks of this side of the cable, a reduce_scatter's those of the other one.
      const int there = to_root ? request_.ranks - below[here] : below[peer];
      const int blocks = gathers ? request_.ranks - there : scatters ? there : 1;
      const std::size_t cable = mesh_.cables.find(rank, branch.rank);
      shares_[cable] += blocks * share;
      most_hops_ = std::max(most_hops_, 1);
      if (to_root) up_shares_[cable] += blocks * share;
    }
  }

  const PlanRequest& request_;
  const Mesh& mesh_;
  std::vector<double> shares_;     // as in mesh_.cables
  std::vector<double> up_shares_;  // of them, by mesh, toward a tree's top
  int most_hops_ = 0, all_hops_ = 0, pairs_ = 0;
};

}  // namespace

CableLoad cable_load(Algorithm algorithm, const PlanRequest& request, double mbps_most) {
  return Adder(request).load(algorithm, mbps_most);
}

}  // namespace meshbed::coll
