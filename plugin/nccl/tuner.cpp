#include "plugin/nccl/tuner.h"

#include <memory>
#include <optional>
#include <string>

#include "plugin/nccl/boundary.h"
#include "plugin/nccl/process.h"
#include "plugin/nccl/tuner_price.h"
#include "plugin/net/connect/cabling_agreement.h"
#include "plugin/net/connect/service.h"
#include "plugin/net/process/object.h"

namespace meshbed::nccl {
namespace {

class Tuner : public net::Object {
 public:
  static constexpr net::ObjectKind kKind = net::ObjectKind::kTuner;
  explicit Tuner(TunerPrices prices) : Object(kKind), prices(std::move(prices)) {}
  TunerPrices prices;
};

struct NamedAlgorithm {
  int algorithm;
  const char* name;
};
constexpr NamedAlgorithm kNames[] = {{kAlgoTree, "Tree"}, {kAlgoNvlsTree, "NVLSTree"}, {kAlgoPat, "PAT"}};

std::string dropped(const TunerPrices& prices) {
  std::string names;
  for (const auto& [algorithm, name] : kNames) {
    if (prices.drops(algorithm)) names += (names.empty() ? "" : ", ") + std::string(name);
  }
  return names;
}

/// The tables' new prices, and one line about them.
TunerPrices prices_of(const net::Mesh& mesh) {
  const int nodes = mesh.graph.nodes();
  if (mesh.graph.full() || !mesh.graph.connected()) {
    MESHBED_INFO(
        "tuner: %d nodes, %s: algorithms are NCCL's choice", nodes,
        mesh.graph.full() ? "a cable between each two" : "joined only through nodes outside this communicator");
    return {};
  }
  const std::vector<int> order = mesh.graph.shortest_tour();
  TunerPrices prices(mesh.graph.renumbered(order));
  std::string ring;
  for (const int node : order) {
    ring += (ring.empty() ? "" : " - ") + to_text(mesh.names[static_cast<std::size_t>(node)]);
  }
  const net::MeshGraph& graph = mesh.graph;
  int cables = 0;
  for (int node = 0; node < nodes; ++node) {
    for (int other = 0; other < node; ++other) cables += graph.joined(node, other) ? 1 : 0;
  }
  const std::string names = dropped(prices);
  const std::string verdict =
      names.empty() ? "every algorithm relays: their costs include it" : names + " would relay: not taken";
  MESHBED_INFO("tuner: %d of %d pairs of %d nodes have a cable; ring %s (number the ranks so): %s", cables,
               nodes * (nodes - 1) / 2, nodes, ring.c_str(), verdict.c_str());
  return prices;
}

/// All ranks come to the same answer here: a question either has the same one at all of them, or its no makes all of
/// them do without.
TunerPrices learn(std::uint64_t comm_id, std::size_t ranks, std::size_t nodes, net::Transport& transport) {
  if (nodes < 2 || transport.nics().empty()) return TunerPrices();
  if (nodes > net::MeshGraph::kNodesMost || ranks > net::CablingAgreement::kRanksMost) {
    MESHBED_INFO("tuner: %zu ranks on %zu nodes are more than a mesh of cables has: algorithms are NCCL's choice",
                 ranks, nodes);
    return TunerPrices();
  }
  if (transport.config().number(net::Variable::kTunerTimeoutMs) == 0) {
    MESHBED_INFO("tuner: off (NCCL_MESH_TUNER_TIMEOUT_MS=0)");
    return TunerPrices();
  }
  net::CablingAgreement* agreement = transport.service() != nullptr ? transport.service()->agreement() : nullptr;
  if (agreement == nullptr) {
    MESHBED_INFO("tuner: relays are off here (NCCL_MESH_ENABLE_RELAY), so the cabling cannot be queried");
    return TunerPrices();
  }
  const auto mesh = agreement->take_part({.communicator = comm_id,
                                          .ranks = static_cast<std::uint32_t>(ranks),
                                          .nodes = static_cast<std::uint16_t>(nodes)});
  return mesh ? prices_of(*mesh) : TunerPrices();
}

}  // namespace

int tuner_init(void** context, std::uint64_t comm_id, std::size_t ranks, std::size_t nodes, LogFunction log,
               NvlDomainInfoV5* /*domains*/, TunerConstantsV5* /*constants*/) {
  return at_boundary("tuner init", [&]() -> Result<void> {
    if (context == nullptr) return refuse("tuner init", "no place for the context");
    TunerPrices prices;
    // The transport stays open while we ask; where NCCL uses another one there is nothing to ask.
    if (net::Context* user = add_context_if_open()) {
      prices = learn(comm_id, ranks, nodes, user->transport);
      if (auto removed = remove_context(user); !removed) return removed;
    } else {
      send_log_to(log);
    }
    *context = net::to_pointer(new Tuner(std::move(prices)));
    return ok();
  });
}

int tuner_get_coll_info(void* context, int collective, std::size_t size_bytes, int /*pipelined*/, float** cost_table,
                        int algorithms, int protocols, int /*registered*/, int* /*channels*/) {
  return at_boundary("tuner getCollInfo", [&]() -> Result<void> {
    const auto* tuner = net::object_cast<Tuner>(context);
    if (tuner == nullptr || cost_table == nullptr || algorithms < 0 || protocols < 0) {
      return refuse("tuner getCollInfo", "bad arguments");
    }
    tuner->prices.apply(
        {.collective = collective, .size_bytes = size_bytes, .algorithms = algorithms, .protocols = protocols},
        reinterpret_cast<float*>(cost_table));
    return ok();
  });
}

int tuner_finalize(void* context) {
  return at_boundary("tuner finalize", [&]() -> Result<void> {
    auto* tuner = net::object_cast<Tuner>(context);
    if (tuner == nullptr) return refuse("tuner finalize", "this is no context");
    delete tuner;
    return ok();
  });
}

int tuner_get_chunk_size(void* context, int /*collective*/, std::size_t /*size_bytes*/, int /*algorithm*/,
                         int /*protocol*/, int /*channels*/, std::size_t* chunk_bytes) {
  return at_boundary("tuner getChunkSize", [&]() -> Result<void> {
    const auto* tuner = net::object_cast<Tuner>(context);
    if (tuner == nullptr || chunk_bytes == nullptr) {
      return refuse("tuner getChunkSize", "bad arguments");
    }
    return ok();
  });
}

}  // namespace meshbed::nccl
