// What went between pairs of ports, and over each link.

#include <cstddef>

#include "testbed/result/run_document.h"
#include "testbed/scenario/cluster_lines.h"

namespace meshbed::testbed::document {
namespace {

Section pairs_shape() {
  Section section{.title = "Paths"};
  section.with(
      Table{.key = "pairs",
            .meaning = "what went from one port to another for one pair of ranks",
            .columns = {integer("source_rank", "", "-1: not known").unknown_below_zero().shown("rank", 4, ""),
                        integer("destination_rank", "", "-1: the message never arrived")
                            .unknown_below_zero()
                            .shown("rank", 4, " -> ")
                            .left(),
                        text("subnet", "that both ports share; \"routed\", \"link-local\" or \"-\" without one")
                            .shown("subnet", 20)
                            .left(),
                        text("source", "the sending port").shown("from", 24).left(),
                        text("destination", "the receiving port").shown("to", 24).left(),
                        integer("messages", "", "their number").shown("messages", 9),
                        integer("payload_bytes", "B", "without headers").shown("payload (B)", 14),
                        integer("wire_bytes", "B", "with headers and repetitions")}});
  section.with(Table{.key = "links",
                     .meaning = "links, each direction by itself",
                     .columns = {text("name", "the port that sends, or the link"), integer("rate_bps", "bit/s", "rate"),
                                 integer("wire_bytes", "B", "with headers"),
                                 integer("busy_ps", "ps", "time in which it carried something")}});
  return section;
}

void fill_pairs(Section& section, const RunView& run) {
  constexpr std::size_t kShown = 24;
  for (const auto& [key, usage] : run.result.pairs) {
    section.table("pairs").add({key.source_rank, key.destination_rank, shared_subnet(run.scenario.cluster, key),
                                sim::endpoint_name(run.scenario.cluster, key.source),
                                sim::endpoint_name(run.scenario.cluster, key.destination), usage.messages,
                                usage.payload_bytes, usage.wire_bytes});
  }
  for (const sim::Link& link : run.result.simulation.links) {
    section.table("links").add({link.name, link.rate_bps, link.bytes_out, link.busy_ps});
  }
  if (run.result.pairs.empty()) return;
  section.blank();
  section.show("pairs", kShown);
}

const RunSection pairs_here(300, pairs_shape, fill_pairs);

}  // namespace
}  // namespace meshbed::testbed::document
