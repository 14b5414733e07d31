#include "plugin/coll/plan/algorithm_choice.h"

namespace meshbed::coll {

std::optional<ProtocolChoice> parse_protocol_choice(std::string_view name) {
  if (name == kAutomatic) return ProtocolChoice{.automatic = true};
  const auto protocol = parse_protocol(name);
  if (!protocol) return std::nullopt;
  return ProtocolChoice{.protocol = *protocol};
}

std::vector<std::string> protocol_choice_names() {
  std::vector<std::string> names{std::string(kAutomatic)};
  for (std::string& name : protocol_names()) names.push_back(std::move(name));
  return names;
}

AlgorithmProtocol choose_way(const ChoiceRules& choice, const PlanRequest& request) {
  const TuningRow* const row = find_row(choice.tuning, request);
  AlgorithmChoice algorithm = choice.algorithm;
  if (algorithm.automatic && row != nullptr) algorithm = {.algorithm = row->algorithm};
  std::vector<Protocol> protocols{choice.protocol.protocol};
  if (choice.protocol.automatic) {
    protocols = {Protocol::kSimple, Protocol::kLl, Protocol::kLl128};
    if (row != nullptr) protocols = {row->protocol};
    if (request.collective == Collective::kSendRecv) protocols = {Protocol::kSimple};
  }
  const auto way_by = [&](Protocol protocol) {
    return AlgorithmProtocol{choose_algorithm(algorithm, request, choice.network, protocol), protocol};
  };
  const auto cost_of = [&](const AlgorithmProtocol& way) {
    return cost_ns(way.algorithm, request, choice.network, way.protocol);
  };
  AlgorithmProtocol best = way_by(protocols.front());
  for (const Protocol protocol : protocols) {
    const AlgorithmProtocol way = way_by(protocol);
    if (cost_of(way) < cost_of(best)) best = way;
  }
  return best;
}

}  // namespace meshbed::coll
