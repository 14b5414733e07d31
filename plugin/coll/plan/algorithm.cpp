#include "plugin/coll/plan/algorithm.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "plugin/coll/plan/cable_load.h"
#include "plugin/coll/plan/mesh.h"
#include "plugin/coll/plan/play.h"
#include "plugin/coll/plan/root_trees.h"
#include "plugin/coll/plan/schedule.h"
#include "plugin/coll/plan/schedule_torus.h"
#include "plugin/coll/plan/torus_cost.h"
#include "plugin/coll/plan/torus_shape.h"
#include "plugin/coll/plan/transfer_list.h"

namespace meshbed::coll {
namespace {

/// Where the pairs' hops are known on average alone: so many times the average's the farthest pair has, for which a
/// step waits (a ring of eight: 4 hops beside 2.8).
constexpr double kFarthestHops = 1.7;

/// As many messages' time passes before the first one leaves.
constexpr double kBeforeFirst = 2;

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
  // A parent's two children are served one after the other, and neighbours on the tree are far apart behind leaf
  // switches (960 ranks behind 40 of them, 1 KiB: 93.9 us, as many messages by halving and doubling 87.7).
  constexpr double kOfChildren = 1.02;
  const bool is_power = (request.ranks & (request.ranks - 1)) == 0;
  const double levels = ceil_log2(request.ranks) * (is_power ? 1 : kOfChildren);
  if (request.collective == Collective::kAllReduce) {
    // Before all levels are in use, each hands on one slice to two children, or has it from them (1,000 ranks behind a
    // switch, 64 KiB: 150 us, of which 51 are the messages').
    const std::uint64_t part = part_of(request.count, 2 * static_cast<std::uint64_t>(request.channels), 0).count;
    const auto elements = static_cast<double>(std::max<std::uint64_t>(request.count, 1));
    const double slice =
        static_cast<double>(std::min(part, scheduled_slice_count(Algorithm::kTree, request))) / elements * bytes;
    return {2 * levels, 2 * bytes + 2 * (2 * levels - 2) * slice};
  }
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
  const bool blocks = has_blocks(request);
  int most = 0;
  for (const MeshTree& tree : trees_of(request)) {
    const auto farthest = [&](int from) {
      const std::vector<int> distances = view_of(tree, from).distances;
      return std::max_element(distances.begin(), distances.end()) - distances.begin();
    };
    int from = request.collective == Collective::kAllReduce ? tree.top : request.root;
    if (blocks) from = static_cast<int>(farthest(from));  // one end of the longest way
    most = std::max(most, view_of(tree, from).distances[static_cast<std::size_t>(farthest(from))]);
  }
  return {request.collective == Collective::kAllReduce ? 2.0 * most : most, bytes};
}

/// Of the first slice on its way along a tree or chain, beyond the time that it takes where all cables are in use.
double fill_bytes(Algorithm algorithm, const PlanRequest& request, double messages) {
  const bool rooted = request.collective == Collective::kBroadcast || request.collective == Collective::kReduce;
  const bool is_mesh = algorithm == Algorithm::kMesh;
  if (!is_mesh && !rooted) return 0;
  const std::uint64_t shares = is_mesh ? trees_of(request).size() : 1;
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
  const bool blocks = has_blocks(request);
  const double headers = is_mesh && blocks ? kHeaderBytes * static_cast<double>(shares) * (request.ranks - 1) / 2 : 0;
  return headers + static_cast<double>(rounds) * (messages - 1) * static_cast<double>(slice * request.element_bytes);
}

/// The last slice of a tree's share, where it is too short to be striped over parallel cables: how much longer it
/// takes.
double short_rest_ns(const PlanRequest& request, double lined, double link_mbps, double way_mbps) {
  const std::uint64_t share = part_of(request.count, trees_of(request).size(), 0).count;
  const std::uint64_t slice = scheduled_slice_count(Algorithm::kMesh, request);
  const double rest_bytes = static_cast<double>((share > slice ? share % slice : 0) * request.element_bytes) * lined;
  if (rest_bytes >= kStripedFromBytes || way_mbps <= link_mbps) return 0;
  return rest_bytes * kNsPerByteAtOneMbps * (1 / link_mbps - 1 / way_mbps);
}

/// Hops beyond the first one, on the critical path.
struct FurtherHops {
  double first = 0;  // of the first message, whose relays have no clear-to-sends yet
  double later = 0;  // of those behind it, all together
};

FurtherHops alike(const Path& path, double further_hops) { return {further_hops, (path.messages - 1) * further_hops}; }

/// Messages one after the other, each of which waits for the one before it; in front of them the call of the first one
/// and the receiver's word where it may go, each as long on its way as a message (8 bytes take 4.03 us in two messages
/// on a triangle, 8.06 in six round scenarios/ring4.toml and 16.1 in 14 round ring8.toml; directly there, over four
/// hops, 12.2 us in one step and 16.2 in two).
double latency_ns(const CostModel& model, const Path& path, const FurtherHops& hops) {
  return (kBeforeFirst + path.messages + hops.later) * model.message_ns + hops.first * model.hop_ns;
}

/// Round the ring the next message begins when the first slice of this one has come: the way is hidden behind the other
/// slices (scenarios/ring8.toml with two rails, 1 MiB: 78.2 us, of which 75.5 are the bytes').
double ring_ns(const CostModel& model, const PlanRequest& request, const Path& path, double way_ns, double bytes_ns) {
  const bool all = request.collective == Collective::kAllReduce;
  const std::uint64_t chunk = part_of(request.count, all ? static_cast<std::uint64_t>(request.ranks) : 1, 0).count;
  const std::uint64_t slice =
      std::min(std::max<std::uint64_t>(chunk, 1), slice_count_of(chunk, request.element_bytes, request));
  const double chunk_ns = bytes_ns / path.messages;
  const double slice_ns =
      chunk_ns * static_cast<double>(slice) / static_cast<double>(std::max<std::uint64_t>(chunk, 1));
  const double first_ns = way_ns + slice_ns;
  return kBeforeFirst * model.message_ns + path.messages * std::max(chunk_ns, first_ns) + std::min(chunk_ns, first_ns) -
         slice_ns;
}

/// Of the way and the bytes what need not be waited for. Of blocks by mesh, cables carry those from near while those
/// from afar are on their way (six in a ring, 1 MiB: 38.8 us, of which 35.0 are the bytes'). Of an all_reduce, what
/// comes back begins when the first slice is there, while the others are still on their way up. Where a rank's cables
/// share one link nothing is hidden: the slices to all neighbours leave at once, and none of them is early (a triangle
/// of two rails, 256 KiB: the bytes take 14.3 us, the ring 17.6, mesh 18.9 and directly 19.0).
double overlap_ns(Algorithm algorithm, const PlanRequest& request, const Path& path, const CostModel& model,
                  const CableLoad& load, double bytes_ns, double fill_ns) {
  const bool blocks = has_blocks(request);
  if ((request.collective != Collective::kAllReduce && !blocks) || load.by_rank) return 0;
  const double up_ns = bytes_ns * load.first_part, message_ns = model.message_ns;
  if (algorithm == Algorithm::kMesh) {
    const double slice_ns = fill_ns / std::max(path.messages - 1, 1.0);
    if (blocks) return std::min(bytes_ns, (path.messages - 1) * (message_ns + slice_ns));
    return std::min(up_ns, path.messages / 2 * (message_ns + slice_ns));
  }
  if (algorithm != Algorithm::kDirect || blocks) return 0;
  const std::uint64_t chunk = part_of(request.count, static_cast<std::uint64_t>(request.ranks), 0).count;
  const std::uint64_t slice = std::min(chunk, scheduled_slice_count(algorithm, request));
  const double slice_ns = up_ns * static_cast<double>(slice) / static_cast<double>(std::max<std::uint64_t>(chunk, 1));
  return std::min(up_ns, message_ns + (load.hops - 1) * model.hop_ns + slice_ns) - slice_ns;
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

/// Of messages that relays hand on when they are there whole, as far as that is not hidden behind other bytes: half of
/// it (the cube mesh of `bench planner`, 64 KiB directly: 14.1 us, of which 8.1 are the way and 5.4 the bytes').
double handed_on_ns(const PlanRequest& request, const FurtherHops& hops, double bytes_ns_per_byte) {
  constexpr double kSeen = 0.5;
  return kSeen * (hops.first + hops.later) * message_bytes(Algorithm::kDirect, request) * bytes_ns_per_byte;
}

/// Of the slowest way through one of `request`'s trees, on average over its cables, what a message uses of them.
double way_mbps(const PlanRequest& request, double mbps_most) {
  double slowest = 0;  // 1 / rate, one after the other
  double messages = 1;
  const Mesh& mesh = *request.mesh;
  for (const MeshTree& tree : trees_of(request)) {
    const std::vector<int> from_top = view_of(tree, tree.top).distances;
    // Ranks by their distance: each one's way is known before those behind it.
    std::vector<int> order(from_top.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int left, int right) {
      return from_top[static_cast<std::size_t>(left)] < from_top[static_cast<std::size_t>(right)];
    });
    std::vector<double> way(from_top.size());
    for (const int rank : order) {
      const auto here = static_cast<std::size_t>(rank);
      for (const Branch& branch : tree.branches[here]) {
        const auto there = static_cast<std::size_t>(branch.rank);
        if (from_top[there] < from_top[here]) continue;
        way[there] = way[here] + 1 / std::min<double>(mbps_most, mesh.mbps(rank, branch.rank));
        if (way[there] <= slowest) continue;
        slowest = way[there];
      }
      messages = std::max<double>(messages, from_top[here]);
    }
  }
  return messages / slowest;
}

bool has_relayed_ring(const PlanRequest& request) {
  bool found = false;
  for (int rank = 0; rank < request.ranks; ++rank) {
    found = found || request.mesh->mbps(rank, (rank + 1) % request.ranks) == 0;
  }
  return found;
}

/// Its order follows from the ranks' numbers, not from the cables: how its steps hold one another up there has no
/// closed form. Where ring neighbours have relays between them that is so of the ring and of what goes directly, whose
/// closed forms were up to 1.4 times too low and 1.7 times too high; the blocks of a mesh are held beside them by the
/// same measure. Of more ranks playing costs too much.
bool is_played(Algorithm algorithm, const PlanRequest& request) {
  constexpr int kPlayedRanksMost = 16;
  if (request.mesh == nullptr || request.ranks <= 1 || request.count == 0) return false;
  if (request.ranks > kWaysKeptMost || algorithm == Algorithm::kTorus) return false;
  if (algorithm == Algorithm::kTree || algorithm == Algorithm::kHalvingDoubling) return true;
  const bool blocks = has_blocks(request);
  if (algorithm == Algorithm::kMesh && !blocks) return false;
  const bool is_alone = request.channels == 1 && request.mesh->rank_mbps.empty();
  return is_alone && request.ranks <= kPlayedRanksMost && has_relayed_ring(request);
}

/// Of so many ranks it needs a connection for each pair; or on cables connections to far ones, whose ways are not
/// looked for.
bool is_beyond(Algorithm algorithm, const PlanRequest& request) {
  const bool goes_far = algorithm == Algorithm::kTree || algorithm == Algorithm::kHalvingDoubling;
  return request.ranks > kWaysKeptMost && (algorithm == Algorithm::kDirect || (request.mesh != nullptr && goes_far));
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
    case Algorithm::kTorus:
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
    case Algorithm::kTorus:
      return "torus";
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

double cost_ns(Algorithm algorithm, const PlanRequest& wanted, const CostModel& model, Protocol protocol,
               double ns_most) {
  if (wanted.ranks == 1) return 0;
  PlanRequest request = wanted;
  request.slice_bytes_max = slice_bytes_of(protocol, wanted.slice_bytes_max);
  const LineFormat format = format_of(protocol);
  const double lined = static_cast<double>(format.line_bytes) / static_cast<double>(format.data_bytes);
  const double bytes = static_cast<double>(request.count) * static_cast<double>(request.element_bytes) * lined;
  const double memory_ns = protocol == Protocol::kSimple ? model.registration_ns : 0;
  if (algorithm == Algorithm::kTorus) {
    return memory_ns + kBeforeFirst * model.message_ns + torus_ns(request, model, lined);
  }
  if (is_beyond(algorithm, request)) return std::numeric_limits<double>::infinity();
  const Path path = path_of(algorithm, request, bytes);
  const bool rooted = request.collective == Collective::kBroadcast || request.collective == Collective::kReduce;
  const bool is_ring = algorithm == Algorithm::kRing && !rooted;
  if (request.mesh != nullptr) {
    // A short one goes over one of several parallel cables.
    const double link_mbps = link_mbps_of(model);
    const double mbps_most = message_bytes(algorithm, request) * lined < kStripedFromBytes
                                 ? link_mbps
                                 : std::numeric_limits<double>::infinity();
    const CableLoad load = cable_load(algorithm, request, mbps_most);
    if (load.most_hops > kHopsMost) return std::numeric_limits<double>::infinity();
    if (is_played(algorithm, request)) {
      const double least_ns = model.message_ns + bytes * load.ns_per_byte;
      const double begun_ns = memory_ns + kBeforeFirst * model.message_ns;
      if (begun_ns + least_ns >= ns_most) return begun_ns + least_ns;
      return begun_ns + std::max(play(algorithm, request, model, lined, mbps_most).ns, least_ns);
    }
    const double fill_mbps = algorithm == Algorithm::kMesh ? way_mbps(request, mbps_most) : link_mbps;
    // What relays say to one another, and wait: an all_gather on scenarios/star5.toml, whose hub's cables are as full
    // either way, takes 1118 us directly and 1099 us by mesh.
    constexpr double kOfRelays = 1.02;
    // Blocks on a mesh: eight in a ring take 606.8 us for 16 MiB, of which 587 are the bytes', and by torus 602.3.
    constexpr double kOfBlocks = 1.01;
    const bool is_block_mesh = algorithm == Algorithm::kMesh && has_blocks(request);
    // On a torus of several dimensions trees wait for one another where they cross (3 x 3, 16 MiB: 724 us, 682
    // without).
    constexpr double kOfCrossings = 1.05;
    const bool has_crossings = algorithm == Algorithm::kMesh && request.collective == Collective::kAllReduce &&
                               request.torus != nullptr && request.torus->by_cables && request.torus->dimensions() > 1;
    const double bytes_ns = bytes * load.ns_per_byte * (load.hops > 1 ? kOfRelays : 1) *
                            (is_block_mesh ? kOfBlocks : 1) * (has_crossings ? kOfCrossings : 1);
    if (is_ring) {
      return memory_ns + ring_ns(model, request, path, model.message_ns + (load.hops - 1) * model.hop_ns, bytes_ns);
    }
    const FurtherHops further = alike(path, load.hops - 1);
    double fill_ns = fill_bytes(algorithm, request, path.messages) * lined * kNsPerByteAtOneMbps / fill_mbps;
    const double overlap = overlap_ns(algorithm, request, path, model, load, bytes_ns, fill_ns);
    if (algorithm == Algorithm::kMesh) fill_ns += short_rest_ns(request, lined, link_mbps, fill_mbps);
    if (algorithm == Algorithm::kDirect)
      fill_ns += handed_on_ns(request, further, lined * kNsPerByteAtOneMbps / link_mbps);
    return memory_ns + latency_ns(model, path, further) + bytes_ns + fill_ns - overlap;
  }
  const double hops = algorithm == Algorithm::kRing ? 1 : std::max(model.hops, 1.0);
  const double bytes_ns = path.bytes * hops * 8 / model.gigabits_per_s;
  if (is_ring) return memory_ns + ring_ns(model, request, path, model.message_ns, bytes_ns);
  return memory_ns + latency_ns(model, path, alike(path, (hops - 1) * kFarthestHops)) + bytes_ns;
}

Algorithm choose_algorithm(const AlgorithmChoice& choice, const PlanRequest& request, const CostModel& model,
                           Protocol protocol) {
  const auto can = [&](Algorithm algorithm) {
    const bool needs_mesh = algorithm == Algorithm::kMesh, needs_shape = algorithm == Algorithm::kTorus;
    const bool knows = (!needs_mesh || (request.mesh != nullptr && request.ranks > 1)) &&
                       (!needs_shape || (request.torus != nullptr && request.ranks > 1));
    return knows && has_schedule(algorithm, request.collective);
  };
  if (!choice.automatic) return can(choice.algorithm) ? choice.algorithm : Algorithm::kRing;
  // Those whose cost is found by playing come last: most of them are known to be dearer before they are played.
  std::vector<Algorithm> order;
  for (const bool played : {false, true}) {
    for (int each = 0; each < kAlgorithms; ++each) {
      const auto algorithm = static_cast<Algorithm>(each);
      const bool joins = algorithm == Algorithm::kRing || can(algorithm);
      // Between two ranks tree and halving send what ring or direct send, in as many messages or more: found by
      // playing, their cost differs from a closed form by a percent where the times are the same. Behind switches rings
      // of two are halving and doubling; in pieces they are faster, as one's steps hide another's (1,024 ranks, 1 MiB:
      // 225 us instead of 297).
      const bool halves = can(Algorithm::kTorus) && is_recursive_halving(*request.torus) &&
                          has_schedule(Algorithm::kHalvingDoubling, request.collective);
      const Algorithm other = halves && torus_pieces(request) > 1 ? Algorithm::kHalvingDoubling : Algorithm::kTorus;
      const bool sends_alike = (halves && algorithm == other) || (request.ranks == 2 && is_played(algorithm, request));
      if (joins && !sends_alike && is_played(algorithm, request) == played) order.push_back(algorithm);
    }
  }
  // Of two that cost the same it is the lower one.
  Algorithm best = Algorithm::kRing;
  double least_ns = std::numeric_limits<double>::infinity();
  for (const Algorithm algorithm : order) {
    const double ns = cost_ns(algorithm, request, model, protocol, least_ns);
    // What is not played to the end costs more than its bound.
    const bool is_bound = is_played(algorithm, request) && ns >= least_ns;
    if (is_bound || ns > least_ns || (ns == least_ns && algorithm > best)) continue;
    best = algorithm;
    least_ns = ns;
  }
  return best;
}

}  // namespace meshbed::coll
