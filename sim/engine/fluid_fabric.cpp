// The fluid fabric: every transfer is a SimGrid flow over links that carry bandwidth only.
//
// A worker actor waits for each flow (detached communications do not report their completion); workers are pooled, so
// there are as many as there were flows at one time. Cost: about 5 us of CPU a flow, and a max-min solution
// whose cost grows with the flows that share links.

#include <map>
#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

#include "models/lan/qsfp.h"
#include "models/lan/router.h"
#include "plugin/base/check.h"
#include "sim/engine/fabric.h"
#include "sim/engine/link_usage.h"
#include "sim/engine/world_impl.h"

namespace meshbed::sim {
namespace {

namespace s4u = simgrid::s4u;

class FluidFabric final : public Fabric {
 public:
  FluidFabric(World& world, Network& network) : world_(world), network_(network), usage_(network, /*adds_load=*/true) {
    build_platform();
  }

  void transfer(const Path& path, std::uint64_t wire_bytes, std::uint64_t, EventFunction done, void* self,
                std::uint64_t argument) override {
    MESHBED_CHECK(wire_bytes > 0);
    usage_.begin(path, wire_bytes, world_.now());
    World::Impl::of(world_).clock.activity(+1);
    const Job job{&path, wire_bytes, done, self, argument};
    if (idle_.empty()) {
      start_worker(job);
    } else {
      Worker* worker = idle_.back();
      idle_.pop_back();
      worker->job = job;
      const SimgridCall call;
      worker->actor->resume();
    }
  }

  void set_rate(int link, std::uint64_t rate_bps) override {
    network_.links()[static_cast<std::size_t>(link)].shaped_bps = rate_bps;
    s4u::Link* shaped = links_[static_cast<std::size_t>(link)];
    if (shaped == nullptr) return;
    const SimgridCall call;
    shaped->set_bandwidth(static_cast<double>(rate_bps) / 8.0);
  }

 private:
  struct Job {
    const Path* path;
    std::uint64_t wire_bytes;
    EventFunction done;
    void* self;
    std::uint64_t argument;
  };
  struct Worker {
    Job job;
    s4u::ActorPtr actor;
  };

  /// One SimGrid host a port. A port belongs to one cable or one switch, so each of those is a zone of its own, and
  /// memory grows with the ports, not with their pairs, where no router joins switches.
  void build_platform() {
    const auto& cluster = world_.cluster();
    auto* root = s4u::Engine::get_instance()->get_netzone_root();
    links_.resize(network_.links().size());
    hosts_.resize(cluster.nodes.size());
    for (std::size_t node = 0; node < cluster.nodes.size(); ++node)
      hosts_[node].resize(cluster.nodes[node].nics.size());
    std::map<int, s4u::NetZone*> zones;  // [first cable of a wire]
    const std::vector<int> wires = models::wires(cluster);
    for (std::size_t index = 0; index < cluster.cables.size(); ++index) {
      const auto& cable = cluster.cables[index];
      s4u::NetZone*& zone = zones[wires[index]];
      if (zone == nullptr) zone = s4u::create_full_zone("cable" + std::to_string(index))->set_parent(root);
      add_host(zone, cable.a);
      add_host(zone, cable.b);
    }
    for (const auto& cable : cluster.cables) {
      auto* zone = zones[wires[static_cast<std::size_t>(&cable - cluster.cables.data())]];
      for (const auto from : {cable.a, cable.b}) {
        for (const auto to : network_.joined(from)) {
          zone->add_route(host(from)->get_netpoint(), host(to)->get_netpoint(), nullptr, nullptr,
                          links(zone, network_.wire(from, to)->links), false);
        }
      }
    }
    for (const auto& [first, zone] : zones) zone->seal();
    for (const std::vector<int>& joined : models::joined_switches(cluster)) {
      if (joined.size() > 1) {
        build_routed(root, joined);
        continue;
      }
      const auto index = static_cast<std::size_t>(joined.front());
      const auto& ports = cluster.switches[index].ports;
      auto* zone = s4u::create_star_zone("switch" + std::to_string(index))->set_parent(root);
      for (const auto port : ports) {
        s4u::Host* host = add_host(zone, port);
        if (ports.size() < 2) continue;  // no peers: no links
        zone->add_route(host->get_netpoint(), nullptr, nullptr, nullptr, links(zone, network_.way_out(port)), false);
        zone->add_route(nullptr, host->get_netpoint(), nullptr, nullptr, links(zone, network_.way_in(port)), false);
      }
      zone->seal();
    }
  }

  /// Switches that routers join are one zone, with a route for each pair of ports: which links it has depends on both.
  void build_routed(s4u::NetZone* root, const std::vector<int>& switches) {
    const auto& cluster = world_.cluster();
    auto* zone = s4u::create_full_zone("switch" + std::to_string(switches.front()))->set_parent(root);
    std::vector<models::PortRef> ports;
    for (const int index : switches) {
      for (const auto port : cluster.switches[static_cast<std::size_t>(index)].ports) {
        add_host(zone, port);
        ports.push_back(port);
      }
    }
    for (const auto from : ports) {
      for (const auto to : ports) {
        const Path* path = network_.wire(from, to);
        if (path == nullptr) continue;
        zone->add_route(host(from)->get_netpoint(), host(to)->get_netpoint(), nullptr, nullptr,
                        links(zone, path->links), false);
      }
    }
    zone->seal();
  }

  s4u::Host* host(models::PortRef port) const {
    return hosts_[static_cast<std::size_t>(port.node)][static_cast<std::size_t>(port.nic)];
  }

  s4u::Host* add_host(s4u::NetZone* zone, models::PortRef port) {
    auto* host = zone->create_host(port_name(world_.cluster(), port), 1e9);
    hosts_[static_cast<std::size_t>(port.node)][static_cast<std::size_t>(port.nic)] = host;
    return host;
  }

  std::vector<s4u::LinkInRoute> links(s4u::NetZone* zone, const std::vector<int>& indices) {
    std::vector<s4u::LinkInRoute> found;
    for (const int index : indices) found.push_back(link(zone, index));
    return found;
  }

  s4u::LinkInRoute link(s4u::NetZone* zone, int index) {
    // A PCIe link is on the ways of several ports; SimGrid lets any zone's routes use it.
    if (s4u::Link* made = links_[static_cast<std::size_t>(index)]; made != nullptr) return s4u::LinkInRoute(made);
    const Link& link = network_.links()[static_cast<std::size_t>(index)];
    // Bandwidth in bytes per second; latency nought, for it is a timer above the fabric.
    auto* made = zone->create_link("link" + std::to_string(index), static_cast<double>(link.rate_bps) / 8.0);
    made->set_latency(0.0)->seal();
    links_[static_cast<std::size_t>(index)] = made;
    return s4u::LinkInRoute(made);
  }

  void start_worker(const Job& job) {
    const SimgridCall call;
    auto* worker = workers_.emplace_back(std::make_unique<Worker>(Worker{job, nullptr})).get();
    worker->actor = s4u::Actor::init("flow", s4u::Host::by_name("meshbed"));
    worker->actor->start([this, worker] {
      SimgridCall::running = nullptr;
      for (;;) {
        carry(worker->job);
        idle_.push_back(worker);
        const SimgridCall call;
        s4u::this_actor::suspend();
      }
    });
  }

  void carry(const Job job) {
    {
      const SimgridCall call;
      s4u::Comm::sendto(host(job.path->source), host(job.path->destination), job.wire_bytes);
    }
    usage_.end(*job.path, job.wire_bytes, world_.now());
    World::Impl::of(world_).clock.activity(-1);
    world_.at(world_.now(), job.path->source.node, job.done, job.self, job.argument);
  }

  World& world_;
  Network& network_;
  LinkUsage usage_;
  std::vector<std::vector<s4u::Host*>> hosts_;
  std::vector<s4u::Link*> links_;  // as in the network; nullptr: a switch port without peers
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<Worker*> idle_;
};

}  // namespace

std::unique_ptr<Fabric> make_fluid_fabric(World& world, Network& network) {
  return std::make_unique<FluidFabric>(world, network);
}

}  // namespace meshbed::sim
