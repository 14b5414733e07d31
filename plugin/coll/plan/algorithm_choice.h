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

/// What a caller may ask for: one of them, or the cheapest.
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

/// What was asked for; what is left to choose comes from the table, or where that says nothing from the cost function.
/// A send_recv whose protocol is left to choose goes by "simple": its two directions may differ in size, and each end
/// knows both.
AlgorithmProtocol choose_way(const ChoiceRules& choice, const PlanRequest& request);

}  // namespace meshbed::coll
