// Ports that were offered more than they carry: what of a run rests on a network that neither loses nor pauses.

#include <algorithm>
#include <cstddef>
#include <vector>

#include "sim/engine/network.h"
#include "testbed/base/units.h"
#include "testbed/result/run_document.h"

namespace meshbed::testbed::document {
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

Section congestion_shape() {
  Section section{.key = "congestion", .title = "Congestion", .empty = Empty::kNull};
  section.with({text("assumed", "of the network, for the times to hold")});
  section.with(Table{.key = "ports",
                     .meaning = "ports of switches and receivers that were offered more than they carry, most first",
                     .columns = {text("name", "the port"), integer("rate_bps", "bit/s", "what it carries"),
                                 integer("offered_bps", "bit/s", "by all senders together, at most"),
                                 number("oversubscribed", "", "offered over rate")}});
  return section;
}

void fill_congestion(Section& section, const RunView& run) {
  constexpr std::size_t kShown = 6;
  const std::vector<const sim::Link*> found = oversubscribed(run.result.simulation.links);
  section.has_values = !found.empty();
  if (found.empty()) return;
  section.set("assumed", "lossless, without pause frames: senders share an oversubscribed port evenly");
  section.blank();
  section.line("congestion: {}; a lossless network without pause frames is assumed, shared evenly",
               found.size() == 1 ? "a port was offered more than it carries"
                                 : fmt::format("{} ports were offered more than they carry", found.size()));
  for (std::size_t at = 0; at < found.size(); ++at) {
    const sim::Link& link = *found[at];
    section.table("ports").add({link.name, link.rate_bps, link.offered_bps, ratio_of(link)});
    if (at >= kShown) continue;
    section.line("  {}: up to {:.2f} times its {}", link.name, ratio_of(link), rate_text(link.rate_bps));
  }
  if (found.size() > kShown) section.line("  and {} more, all in summary.json", found.size() - kShown);
}

const RunSection congestion_here(900, congestion_shape, fill_congestion);

}  // namespace
}  // namespace meshbed::testbed::document
