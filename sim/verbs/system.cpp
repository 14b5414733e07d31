#include "sim/verbs/system.h"

#include <dlfcn.h>

#include <cerrno>
#include <memory>
#include <stdexcept>

namespace meshbed::sim {
namespace verbs {
namespace {

std::unique_ptr<System> g_system;  // of the one World

}  // namespace

System::System(World& owner, MessageSink* messages)
    : world(owner), network(owner.network()), fabric(owner.fabric()), sink(messages), posted_writes(owner) {
  const auto& nodes = world.cluster().nodes;
  ports.resize(nodes.size());
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    for (std::size_t nic = 0; nic < nodes[node].nics.size(); ++nic) {
      const models::PortRef port{static_cast<int>(node), static_cast<int>(nic)};
      ports[node].push_back({.up = network.port_up(port),
                             .link = network.link_up(port),
                             .dice = Prng(mix64(world.options().seed ^ mix64(node << 8U | nic)))});
    }
  }
}

System& system() { return *g_system; }

int refuse(System& system, const std::string& what) {
  if (system.refused.insert(what).second) backend_table().unsupported(what.c_str());
  return EOPNOTSUPP;
}

std::string describe(const System& system, const Context& context) {
  return context.process->name + " on " + port_name(system.world.cluster(), context.port);
}

}  // namespace verbs

void install_verbs(World& world, const std::string& libibverbs_path, MessageSink* sink, const VerbsCost& cost) {
  void* library = dlopen(libibverbs_path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  void* symbol = dlsym(library, kSetBackendSymbol);
  if (symbol == nullptr) throw std::runtime_error(libibverbs_path + " is not the simulator's libibverbs");
  verbs::g_system = std::make_unique<verbs::System>(world, sink);
  verbs::g_system->cost = cost;
  const auto set_backend = reinterpret_cast<int (*)(const VerbsBackend*)>(symbol);
  if (set_backend(&verbs::backend_table()) != 0) {
    throw std::runtime_error(libibverbs_path + " was built for another version of the back end");
  }
}

void set_hop(int rank, Picoseconds hop_ps) {
  std::vector<Picoseconds>& hops_ps = verbs::system().hops_ps;
  const auto index = static_cast<std::size_t>(rank);
  if (hops_ps.size() <= index) hops_ps.resize(index + 1);
  hops_ps[index] = hop_ps;
}

void node_continued(int node) {
  verbs::System& system = verbs::system();
  system.queue_pairs.for_each([&](verbs::QueuePair& qp) {
    if (qp.context->port.node != node) return;
    verbs::pump(system, qp);
    verbs::start_response(system, qp);
  });
}

VerbsCounters verbs_counters() {
  const verbs::System& system = verbs::system();
  VerbsCounters counters = system.counters;
  const auto add = [&counters](const auto& table) {
    counters.live_objects += table.live();
    counters.peak_objects += table.peak();
  };
  add(system.domains);
  add(system.channels);
  add(system.completion_queues);
  add(system.queue_pairs);
  add(system.memory);
  return counters;
}

}  // namespace meshbed::sim
