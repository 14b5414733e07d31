#include "plugin/coll/way.h"

namespace meshbed::coll {
namespace {

constexpr std::string_view kAutomatic = "auto";

}  // namespace

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

Way choose_way(const WayChoice& choice, const PlanRequest& request) {
  const TuningRow* const row = find_row(choice.tuning, request);
  AlgorithmChoice algorithm = choice.algorithm;
  if (algorithm.automatic && row != nullptr) algorithm = {.algorithm = row->algorithm};
  Way way{.algorithm = choose_algorithm(algorithm, request, choice.network), .protocol = choice.protocol.protocol};
  if (!choice.protocol.automatic) return way;
  way.protocol = Protocol::kSimple;
  if (request.collective == Collective::kSendRecv) return way;
  if (row != nullptr) {
    way.protocol = row->protocol;
    return way;
  }
  for (int each = 0; each < kProtocols; ++each) {
    const auto protocol = static_cast<Protocol>(each);
    if (cost_ns(way.algorithm, request, choice.network, protocol) <
        cost_ns(way.algorithm, request, choice.network, way.protocol)) {
      way.protocol = protocol;
    }
  }
  return way;
}

}  // namespace meshbed::coll
