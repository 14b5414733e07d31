#include "plugin/coll/plan/algorithm.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "plugin/coll/plan/cable_load.h"
#include "plugin/coll/plan/mesh.h"
#include "plugin/coll/plan/root_trees.h"
#include "plugin/coll/plan/schedule.h"

namespace meshbed::coll {
namespace {

/// Where the pairs' hops are known on average alone: so many times the average's the farthest pair has, for which a
/// step waits (a ring of eight: 4 hops beside 2.8).
constexpr double kFarthestHops = 1.7;

double ceil_log2(int ranks) {
  int steps = 0;
  while ((1 << steps) < ranks) ++steps;
  return steps;
}

/// On the critical path, of messages that all ranks send at once: how many, and bytes through one rank's link.
struct Path {
  double messages = 0, bytes = 0;
};

Path ring_path(const PlanRequest& request, double bytes) {
  const double steps = request.ranks - 1;
  switch (request.collective) {
    case Collective::kAllReduce:
      return {2 * steps, 2 * steps / request.ranks * bytes};
    case Collective::kBroadcast:
    case Collective::kReduce:
      return {steps, bytes};
    default:  // of blocks
      return {steps, steps * bytes};
  }
}

Path tree_path(const PlanRequest& request, double bytes) {
  const double levels = ceil_log2(request.ranks);
  if (request.collective == Collective::kAllReduce) return {2 * levels, 2 * bytes};
  return {std::bit_width(static_cast<unsigned>(request.ranks)) - 1.0, 2 * bytes};  // two children
}

Path halving_path(const PlanRequest& request, double bytes) {
  const double most = ceil_log2(request.ranks);
  const bool is_power = (request.ranks & (request.ranks - 1)) == 0;
  const double steps = is_power ? most : most - 1, folds = is_power ? 0 : 2;
  const double power = static_cast<double>(1 << static_cast<int>(steps));
  return {2 * steps + folds, 2 * (power - 1) / power * bytes + folds * bytes};
}

/// As many bytes as a ring's, in one step of it or two.
Path direct_path(const PlanRequest& request, double bytes) {
  return {request.collective == Collective::kAllReduce ? 2.0 : 1.0, ring_path(request, bytes).bytes};
}

/// Up to a tree's top and down again, or to or from the root, or from rank to rank. The bytes are cable_load.h's.
Path mesh_path(const PlanRequest& request, double bytes) {
  int most = 0;
  for (const MeshTree& tree : trees_of(request)) {
    const bool blocks =
        request.collective == Collective::kAllGather || request.collective == Collective::kReduceScatter;
    for (int from = 0; from < request.ranks; ++from) {
      const int top = request.collective == Collective::kAllReduce ? tree.top : request.root;
      if (!blocks && from != top) continue;
      const std::vector<int> distances = view_of(tree, from).distances;
      most = std::max(most, *std::max_element(distances.begin(), distances.end()));
    }
  }
  return {request.collective == Collective::kAllReduce ? 2.0 * most : most, bytes};
}

/// Of what halving-doubling's steps send one after the other, all but those of the one cable that carries most: a
/// step's first slice, for the ranks at the other distances wait for it.
double halving_fill_bytes(const PlanRequest& request) {
  const int steps = static_cast<int>(std::bit_width(static_cast<unsigned>(request.ranks))) - 1;
  const std::uint64_t slice = scheduled_slice_count(Algorithm::kHalvingDoubling, request);
  std::uint64_t all = 0, count = request.count / 2;
  for (int step = 1; step < steps; ++step) all += 2 * std::min(slice, count /= 2);
  return static_cast<double>(all * request.element_bytes);
}

/// Of the first slice on its way along a tree or chain, beyond the time that it takes where all cables are in use.
double fill_bytes(Algorithm algorithm, const PlanRequest& request, double messages) {
  if (algorithm == Algorithm::kHalvingDoubling) return halving_fill_bytes(request);
  const bool rooted = request.collective == Collective::kBroadcast || request.collective == Collective::kReduce;
  const bool is_mesh = algorithm == Algorithm::kMesh, is_tree = algorithm == Algorithm::kTree;
  if (!is_mesh && !is_tree && !rooted) return 0;
  const std::uint64_t shares = is_mesh ? trees_of(request).size() : is_tree && !rooted ? 2 : 1;
  const std::uint64_t slice =
      std::min(scheduled_slice_count(algorithm, request), part_of(request.count, shares, 0).count);
  // Each round begins with empty cables; what goes round the ring has none of these.
  const bool by_rounds = rooted && algorithm != Algorithm::kRing;
  const std::uint64_t most =
      by_rounds ? round_count_most(algorithm, request) : std::max<std::uint64_t>(request.count, 1);
  const std::uint64_t rounds = (request.count + most - 1) / most;
  // Of blocks a cable of a mesh carries many small messages: headers, which a ring has once a step. A line has those of
  // half of the blocks.
  constexpr double kHeaderBytes = 64;
  const bool blocks = request.collective == Collective::kAllGather || request.collective == Collective::kReduceScatter;
  const double headers = is_mesh && blocks ? kHeaderBytes * static_cast<double>(shares) * (request.ranks - 1) / 2 : 0;
  return headers + static_cast<double>(rounds) * (messages - 1) * static_cast<double>(slice * request.element_bytes);
}

/// Of a message of `path`'s over so many hops more than one. The first one finds its relays' ends with nothing told
/// yet; each behind it has one message's time more a hop (directly on scenarios/ring8.toml, four hops away: 8 bytes
/// take 12.2 us in one step and 16.2 in two).
double way_ns(const CostModel& model, const Path& path, double further_hops) {
  const double hop_ns = (model.hop_ns + (path.messages - 1) * model.message_ns) / path.messages;
  return model.message_ns + further_hops * hop_ns;
}

/// Messages one after the other, each of which waits for the one before it, which is so long on its way and `bytes_ns`
/// on its cable. Round the ring the next message begins when the first slice of this one has come: the way is hidden
/// behind the other slices (scenarios/ring8.toml with two rails, 1 MiB: 78.2 us, of which 75.5 are the bytes').
double messages_ns(Algorithm algorithm, const PlanRequest& request, const Path& path, double way_ns, double bytes_ns) {
  const bool rooted = request.collective == Collective::kBroadcast || request.collective == Collective::kReduce;
  if (algorithm != Algorithm::kRing || rooted) return path.messages * way_ns + bytes_ns;
  const bool all = request.collective == Collective::kAllReduce;
  const std::uint64_t chunk = part_of(request.count, all ? static_cast<std::uint64_t>(request.ranks) : 1, 0).count;
  const std::uint64_t slice =
      std::min(std::max<std::uint64_t>(chunk, 1), slice_count_of(chunk, request.element_bytes, request));
  const double chunk_ns = bytes_ns / path.messages;
  const double slice_ns =
      chunk_ns * static_cast<double>(slice) / static_cast<double>(std::max<std::uint64_t>(chunk, 1));
  const double first_ns = way_ns + slice_ns;
  return path.messages * std::max(chunk_ns, first_ns) + std::min(chunk_ns, first_ns) - slice_ns;
}

/// Of a typical message: the largest slice, or all that there is for one peer at a time.
double message_bytes(Algorithm algorithm, const PlanRequest& request) {
  const auto ranks = static_cast<std::uint64_t>(request.ranks);
  const bool all = request.collective == Collective::kAllReduce;
  std::uint64_t pieces = all ? ranks : 1;
  if (algorithm == Algorithm::kMesh) pieces = trees_of(request).size();
  if (algorithm == Algorithm::kTree || algorithm == Algorithm::kHalvingDoubling) pieces = all ? 2 : 1;
  const std::uint64_t piece = part_of(request.count, pieces, 0).count;
  const std::uint64_t slice = algorithm == Algorithm::kRing ? slice_count_of(piece, request.element_bytes, request)
                                                            : scheduled_slice_count(algorithm, request);
  return static_cast<double>(std::min(piece, slice) * request.element_bytes);
}

/// What of the slowest cable that `request`'s trees cross a message uses.
double narrowest_mbps(const PlanRequest& request, double mbps_most) {
  double least = mbps_most;
  const Mesh& mesh = *request.mesh;
  for (const MeshTree& tree : trees_of(request)) {
    for (int rank = 0; rank < mesh.ranks; ++rank) {
      for (const Branch& branch : tree.branches[static_cast<std::size_t>(rank)]) {
        least = std::min<double>(least, mesh.mbps(rank, branch.rank));
      }
    }
  }
  return least;
}

Path path_of(Algorithm algorithm, const PlanRequest& request, double bytes) {
  switch (algorithm) {
    case Algorithm::kTree:
      return tree_path(request, bytes);
    case Algorithm::kHalvingDoubling:
      return halving_path(request, bytes);
    case Algorithm::kDirect:
      return direct_path(request, bytes);
    case Algorithm::kMesh:
      return mesh_path(request, bytes);
    case Algorithm::kRing:
      break;
  }
  return ring_path(request, bytes);
}

}  // namespace

const char* name_of(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kRing:
      return "ring";
    case Algorithm::kTree:
      return "tree";
    case Algorithm::kHalvingDoubling:
      return "halving-doubling";
    case Algorithm::kDirect:
      return "direct";
    case Algorithm::kMesh:
      return "mesh";
  }
  return "unknown";
}

std::optional<AlgorithmChoice> parse_algorithm(std::string_view name) {
  if (name == kAutomatic) return AlgorithmChoice{.automatic = true};
  for (int each = 0; each < kAlgorithms; ++each) {
    const auto algorithm = static_cast<Algorithm>(each);
    if (name == name_of(algorithm)) return AlgorithmChoice{.algorithm = algorithm};
  }
  return std::nullopt;
}

std::vector<std::string> algorithm_names() {
  std::vector<std::string> names{std::string(kAutomatic)};
  for (int each = 0; each < kAlgorithms; ++each) names.emplace_back(name_of(static_cast<Algorithm>(each)));
  return names;
}

double cost_ns(Algorithm algorithm, const PlanRequest& wanted, const CostModel& model, Protocol protocol) {
  if (wanted.ranks == 1) return 0;
  PlanRequest request = wanted;
  request.slice_bytes_max = slice_bytes_of(protocol, wanted.slice_bytes_max);
  const LineFormat format = format_of(protocol);
  const double lined = static_cast<double>(format.line_bytes) / static_cast<double>(format.data_bytes);
  const double bytes = static_cast<double>(request.count) * static_cast<double>(request.element_bytes) * lined;
  const double memory_ns = protocol == Protocol::kSimple ? model.registration_ns : 0;
  const Path path = path_of(algorithm, request, bytes);
  if (request.mesh != nullptr) {
    // A short one goes over one of several parallel cables.
    const double link_mbps = model.gigabits_per_s * 1000;
    const double mbps_most = message_bytes(algorithm, request) * lined < kStripedFromBytes
                                 ? link_mbps
                                 : std::numeric_limits<double>::infinity();
    const CableLoad load = cable_load(algorithm, request, mbps_most);
    const double fill_mbps = algorithm == Algorithm::kMesh ? narrowest_mbps(request, mbps_most) : link_mbps;
    // What relays say to one another, and wait: an all_gather on scenarios/star5.toml, whose hub's cables are as full
    // either way, takes 1118 us directly and 1099 us by mesh.
    constexpr double kOfRelays = 1.02;
    const double bytes_ns = bytes * load.ns_per_byte * (load.hops > 1 ? kOfRelays : 1);
    return memory_ns +
           messages_ns(algorithm, request, path, model.message_ns + (load.hops - 1) * model.hop_ns, bytes_ns) +
           fill_bytes(algorithm, request, path.messages) * lined * 8000 / fill_mbps;
  }
  const double hops = algorithm == Algorithm::kRing ? 1 : std::max(model.hops, 1.0);
  return memory_ns + messages_ns(algorithm, request, path, way_ns(model, path, (hops - 1) * kFarthestHops),
                                 path.bytes * hops * 8 / model.gigabits_per_s);
}

Algorithm choose_algorithm(const AlgorithmChoice& choice, const PlanRequest& request, const CostModel& model,
                           Protocol protocol) {
  const auto can = [&](Algorithm algorithm) {
    const bool knows = algorithm != Algorithm::kMesh || (request.mesh != nullptr && request.ranks > 1);
    return knows && has_schedule(algorithm, request.collective);
  };
  if (!choice.automatic) return can(choice.algorithm) ? choice.algorithm : Algorithm::kRing;
  Algorithm best = Algorithm::kRing;
  for (int each = 0; each < kAlgorithms; ++each) {
    const auto algorithm = static_cast<Algorithm>(each);
    if (!can(algorithm)) continue;
    if (cost_ns(algorithm, request, model, protocol) < cost_ns(best, request, model, protocol)) best = algorithm;
  }
  return best;
}

}  // namespace meshbed::coll
