#pragma once
// Algorithm: how a collective is carried out, and which way is the cheapest. Pure: all ranks choose alike.

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/coll/plan/plan.h"
#include "plugin/coll/plan/protocol.h"

namespace meshbed::coll {

enum class Algorithm : std::uint8_t {
  kRing = 0,  // or a chain, or pairs: plan.h
  kTree = 1,  // schedule.h, as what follows
  kHalvingDoubling = 2,
  kDirect = 3,
  kMesh = 4,   // where the cables are known and join all ranks: mesh.h
  kTorus = 5,  // where the ranks have a shape: torus_shape.h
};
inline constexpr int kAlgorithms = 6;

/// Messages from this size on are striped over parallel cables: the transport's NCCL_MESH_STRIPE_BYTES, as it comes.
inline constexpr std::uint64_t kStripedFromBytes = 8192;

/// "ring", "tree", "halving-doubling", "direct", "mesh", "torus".
const char* name_of(Algorithm algorithm);

/// A caller's choice: one algorithm where it does the collective (and the ring elsewhere), or the cheapest.
struct AlgorithmChoice {
  bool automatic = false;
  Algorithm algorithm = Algorithm::kRing;  // unless automatic
};
inline constexpr std::string_view kAutomatic = "auto";
/// By name, or "auto"; nullopt: there is none of that name.
std::optional<AlgorithmChoice> parse_algorithm(std::string_view name);
/// Those names, "auto" first.
std::vector<std::string> algorithm_names();

/// The network as the cost function sees it. Neighbours on the ring are one hop apart. The defaults are the simulator's
/// figures, where software costs nothing: 8 bytes round scenarios/ring8.toml take 14 messages and 16.1 us, of which two
/// are before the first message leaves; directly 2 messages over up to four hops and 16.2 us.
struct CostModel {
  double gigabits_per_s = 100;  // of one rank's link, each direction
  double message_ns = 1000;     // a small message between neighbours, from call to arrival
  double hop_ns = 3050;         // what each further hop adds to the first message; to those behind it, message_ns
  double hops = 1;              // between ranks that are no ring neighbours, on average
  double registration_ns = 0;   // to register and deregister the memory of an operation, where it is not
};

/// Of one cable.
inline double link_mbps_of(const CostModel& model) { return model.gigabits_per_s * 1000; }

/// Simulated or real nanoseconds of one operation: (messages on the critical path) (their latency) + (bytes through the
/// busiest link) / rate, the alpha-beta model of Thakur, Rabenseifner, Gropp (2005, section 3); a message over h hops
/// fills h links. If request.mesh holds the cables, they and their rates replace `hops` and the link's rate:
/// cable_load.h. Lines add bytes, but their memory need not be registered. The estimate only has to order the
/// algorithms and protocols. On a mesh, trees and halving-doubling are played (play.h), and so are the others if ring
/// neighbours have relays between them, unless that cannot cost less than `ns_most`: then the result is a lower bound,
/// no less than `ns_most`. Infinite: it needs connections between ranks that are too far apart.
double cost_ns(Algorithm algorithm, const PlanRequest& request, const CostModel& model,
               Protocol protocol = Protocol::kSimple, double ns_most = std::numeric_limits<double>::infinity());

/// The algorithm to use: the cheapest, or the chosen one, or the ring. Depends only on values that all ranks share.
Algorithm choose_algorithm(const AlgorithmChoice& choice, const PlanRequest& request, const CostModel& model,
                           Protocol protocol = Protocol::kSimple);

}  // namespace meshbed::coll
