#include "testbed/world/simulated_faults.h"

#include <utility>

#include "sim/fault/inject.h"
#include "testbed/scenario/build.h"

namespace meshbed::testbed {
namespace {

constexpr int kFirstHost = 0;  // of events that belong to no node

}  // namespace

SimulatedFaults::SimulatedFaults(const Scenario& scenario, sim::World& world, std::function<void(int)> on_kill)
    : scenario_(scenario), world_(world), board_(scenario), on_kill_(std::move(on_kill)) {
  world.never_hold(&SimulatedFaults::step_due);
  world.never_hold(&SimulatedFaults::waiters_due);
}

void SimulatedFaults::reach(const std::string& point) {
  if (answered_.count(point) > 0) return;  // its node stood still meanwhile
  if (reached_.insert(point).second) {
    for (const FaultStep& step : board_.steps_from(point)) {
      due_.push_back({this, step});
      world_.after(step.after_ps, kFirstHost, &SimulatedFaults::step_due, &due_.back(), 0);
    }
    // Behind the steps of this instant, in the order of events.
    world_.after(0, kFirstHost, &SimulatedFaults::waiters_due, this, 0);
  }
  waiting_.push_back(sim::World::current());
  world_.block({.what = "a fault point"});
}

void SimulatedFaults::waiters_due(void* self, std::uint64_t) {
  auto& faults = *static_cast<SimulatedFaults*>(self);
  faults.answered_ = faults.reached_;
  for (sim::Thread* thread : std::exchange(faults.waiting_, {})) faults.world_.wake(*thread);
}

void SimulatedFaults::step_due(void* self, std::uint64_t) {
  const Due& due = *static_cast<Due*>(self);
  SimulatedFaults& faults = *due.faults;
  faults.taken_.push_back({due.step, faults.world_.now()});
  faults.board_.take(due.step, faults);
}

void SimulatedFaults::shape(models::PortRef port, const sim::Shape& shape) { sim::shape_port(world_, port, shape); }
void SimulatedFaults::set_link(models::PortRef port, bool up) { sim::set_link(world_, port, up); }
void SimulatedFaults::change_address(models::PortRef port, const models::IpPrefix& from, const models::IpPrefix& to) {
  sim::change_address(world_, port, from, to);
}
void SimulatedFaults::stop(int node) { sim::stop_node(world_, node); }
void SimulatedFaults::go_on(int node) { sim::continue_node(world_, node); }

void SimulatedFaults::kill(int node) {
  sim::kill_node(world_, node);
  on_kill_(node);
}

void SimulatedFaults::strangers(std::size_t fault, bool come) {
  const Fault& said = scenario_.faults[fault];
  sim::Strangers& they = strangers_
                             .try_emplace(fault, world_,
                                          sim::StrangerOptions{.from = find_node(scenario_.cluster, said.from),
                                                               .target = find_node(scenario_.cluster, said.target),
                                                               .connections = said.connections,
                                                               .byte_every = said.byte_every_ps})
                             .first->second;
  come ? they.begin() : they.end();
}

}  // namespace meshbed::testbed
