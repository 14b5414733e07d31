#include "testbed/world/emulated_faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include "plugin/base/deadline.h"
#include "testbed/base/files.h"
#include "testbed/base/units.h"
#include "testbed/scenario/placement.h"
#include "testbed/world/fault_folder.h"

namespace meshbed::testbed {

EmulatedFaults::EmulatedFaults(const Scenario& scenario, emu::MicroVms& machines, std::vector<std::string> folders)
    : scenario_(scenario),
      machines_(machines),
      folders_(std::move(folders)),
      first_folder_(folders_.at(static_cast<std::size_t>(node_of(scenario, 0)))),
      board_(scenario),
      awaited_(points_of(scenario)) {}

std::vector<std::string> EmulatedFaults::serve() {
  const std::size_t before = taken_.size();
  if (pending()) look_for_points();
  while (!due_.empty() && due_.front().at_s <= now_s()) {
    const Due due = due_.front();
    due_.erase(due_.begin());
    take(due);
  }
  std::vector<std::string> said;
  for (std::size_t index = before; index < taken_.size(); ++index) {
    said.push_back(fmt::format("{}, {} after the first point", text_of(scenario_, taken_[index].step),
                               duration_text(taken_[index].at_ps)));
  }
  return said;
}

bool EmulatedFaults::waits_for_the_stopped() const {
  if (later_.empty() || !due_.empty()) return false;
  const std::vector<emu::NodeOutcome> nodes = machines_.outcome().nodes;
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    const bool ended = nodes[node].end == emu::NodeEnd::kDone || nodes[node].end == emu::NodeEnd::kKilled;
    if (!ended && later_.count(static_cast<int>(node)) == 0) return false;
  }
  return true;
}

std::vector<std::string> EmulatedFaults::stopped() const {
  std::vector<std::string> nodes;
  for (const auto& [node, changes] : later_) nodes.push_back(name_of(node) + " is stopped (node_stop)");
  return nodes;
}

void EmulatedFaults::look_for_points() {
  for (auto point = awaited_.begin(); point != awaited_.end();) {
    std::error_code problem;
    if (!std::filesystem::exists(point_file(first_folder_, *point), problem)) {
      ++point;
      continue;
    }
    const double now_s = meshbed::now_s();
    if (start_s_ == 0) start_s_ = now_s;
    for (const FaultStep& step : board_.steps_from(*point)) {
      const Due due{now_s + static_cast<double>(step.after_ps) / kPicosecondsPerSecond, step};
      if (step.after_ps == 0) {
        take(due);
      } else {
        const auto later = [](const Due& one, const Due& other) { return one.at_s < other.at_s; };
        due_.insert(std::upper_bound(due_.begin(), due_.end(), due, later), due);
      }
    }
    answer(*point);
    point = awaited_.erase(point);
  }
}

void EmulatedFaults::take(const Due& due) {
  board_.take(due.step, *this);
  taken_.push_back(
      {due.step, static_cast<Picoseconds>((now_s() - start_s_) * static_cast<double>(kPicosecondsPerSecond))});
}

/// The ranks may go on.
void EmulatedFaults::answer(const std::string& point) {
  for (const std::string& folder : folders_) write_text_file(answer_file(folder, point), "");
}

const std::string& EmulatedFaults::name_of(int node) const { return scenario_.cluster.at(node).name; }

const std::string& EmulatedFaults::netdev_of(models::PortRef port) const {
  const models::Node& node = scenario_.cluster.at(port.node);
  return node.nic(port.nic).netdev;
}

void EmulatedFaults::shape(models::PortRef port, const sim::Shape& shape) {
  if (const auto stopped = later_.find(port.node); stopped != later_.end()) {
    stopped->second.emplace_back([this, port, shape] { this->shape(port, shape); });
    return;
  }
  machines_.shape(name_of(port.node), netdev_of(port),
                  {.loss = shape.loss,
                   .reorder = shape.reorder,
                   .delay_us = static_cast<double>(shape.delay_ps) / kPicosecondsPerMicrosecond,
                   .rate_bps = shape.rate_bps});
}

void EmulatedFaults::change_address(models::PortRef port, const models::IpPrefix& from, const models::IpPrefix& to) {
  if (const auto stopped = later_.find(port.node); stopped != later_.end()) {
    stopped->second.emplace_back([this, port, from, to] { change_address(port, from, to); });
    return;
  }
  machines_.change_address(name_of(port.node), netdev_of(port), to_text(from), to_text(to));
}

void EmulatedFaults::set_link(models::PortRef port, bool up) {
  machines_.set_link(name_of(port.node), netdev_of(port), up);
}

void EmulatedFaults::stop(int node) {
  machines_.stop_vm(name_of(node));
  later_[node];
}

void EmulatedFaults::go_on(int node) {
  machines_.continue_vm(name_of(node));
  const auto later = later_.extract(node);
  if (later.empty()) return;
  for (const auto& change : later.mapped()) change();
}

void EmulatedFaults::kill(int node) { machines_.kill_vm(name_of(node)); }

void EmulatedFaults::strangers(std::size_t fault, bool) {
  throw std::runtime_error(text_of(scenario_, {.fault = fault}) + ": no node refused the connections in time");
}

void refuse_what_machines_cannot(const Scenario& scenario) {
  for (std::size_t index = 0; index < scenario.faults.size(); ++index) {
    const std::string why = info_of(scenario.faults[index].kind).simulated_only;
    if (why.empty()) continue;
    throw std::runtime_error(fmt::format("{}: [[fault]] \"{}\": {}; use --world sim, or leave it out", scenario.path,
                                         text_of(scenario, {.fault = index}), why));
  }
}

}  // namespace meshbed::testbed
