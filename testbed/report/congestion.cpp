#include "testbed/report/congestion.h"

#include <fmt/format.h>

#include <algorithm>

#include "testbed/base/units.h"

namespace meshbed::testbed {
namespace {

double ratio_of(const sim::Link& link) {
  return static_cast<double>(link.offered_bps) / static_cast<double>(link.rate_bps);
}

std::vector<const sim::Link*> oversubscribed(const std::vector<sim::Link>& links) {
  constexpr double kRounding = 1e-6;  // of shares of a rate
  std::vector<const sim::Link*> found;
  for (const sim::Link& link : links) {
    if (ratio_of(link) > 1 + kRounding) found.push_back(&link);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const sim::Link* left, const sim::Link* right) { return ratio_of(*left) > ratio_of(*right); });
  return found;
}

}  // namespace

std::vector<std::string> congestion_lines(const std::vector<sim::Link>& links) {
  constexpr std::size_t kShown = 6;
  const std::vector<const sim::Link*> found = oversubscribed(links);
  if (found.empty()) return {};
  const std::string ports = found.size() == 1 ? "a port was offered more than it carries"
                                              : fmt::format("{} ports were offered more than they carry", found.size());
  std::vector<std::string> lines{"congestion: " + ports +
                                 "; a lossless network without pause frames is assumed, shared evenly"};
  for (std::size_t at = 0; at < std::min(found.size(), kShown); ++at) {
    const sim::Link& link = *found[at];
    lines.push_back(
        fmt::format("  {}: up to {:.2f} times its {}", link.name, ratio_of(link), rate_text(link.rate_bps)));
  }
  if (found.size() > kShown) lines.push_back(fmt::format("  and {} more, all in summary.json", found.size() - kShown));
  return lines;
}

nlohmann::ordered_json congestion_json(const std::vector<sim::Link>& links) {
  const std::vector<const sim::Link*> found = oversubscribed(links);
  if (found.empty()) return nullptr;
  auto ports = nlohmann::ordered_json::array();
  for (const sim::Link* link : found) {
    ports.push_back({{"name", link->name},
                     {"rate_bps", link->rate_bps},
                     {"offered_bps", link->offered_bps},
                     {"oversubscribed", ratio_of(*link)}});
  }
  return {{"assumed", "lossless, without pause frames: senders share an oversubscribed port evenly"},
          {"ports", std::move(ports)}};
}

}  // namespace meshbed::testbed
