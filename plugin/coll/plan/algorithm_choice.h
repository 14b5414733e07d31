#pragma once
// AlgorithmProtocol: by which algorithm and protocol an operation goes. Pure: all ranks choose alike.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/coll/plan/algorithm.h"
#include "plugin/coll/plan/protocol.h"
#include "plugin/coll/plan/tuning.h"

namespace meshbed::coll {

struct AlgorithmProtocol {
  Algorithm algorithm = Algorithm::kRing;
  Protocol protocol = Protocol::kSimple;
  bool operator==(const AlgorithmProtocol&) const = default;
};

/// A caller's choice: one protocol, or the cheapest.
struct ProtocolChoice {
  bool automatic = false;
  Protocol protocol = Protocol::kSimple;  // unless automatic
};
/// By name, or "auto"; nullopt: there is none of that name.
std::optional<ProtocolChoice> parse_protocol_choice(std::string_view name);
/// Those names, "auto" first.
std::vector<std::string> protocol_choice_names();

struct ChoiceRules {
  AlgorithmChoice algorithm{.automatic = true};
  ProtocolChoice protocol{};
  CostModel network{};
  TuningTable tuning{};
};

/// The caller's choice; what it leaves open comes from the table, or if that has no matching line from the cost
/// function. A send_recv whose protocol is left open uses "simple": its two directions may differ in size, so that its
/// ends could choose differently.
AlgorithmProtocol choose_way(const ChoiceRules& choice, const PlanRequest& request);

}  // namespace meshbed::coll
