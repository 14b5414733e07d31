#pragma once
// Bonds: which of its functions each bond sends by. Owned by the Network.
//
// models/lan/bond.h lists the sources. A bond knows the state of its functions' links as of its last look; a fault that
// changes a link causes a look after miimon (sim/fault/inject.cpp). Until then the bond goes on sending in vain.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "models/cluster.h"

namespace meshbed::sim {

class Bonds {
 public:
  using IsUp = std::function<bool(models::PortRef)>;

  /// `cluster` must outlive this; `is_up`: a function's link, as it is at the start.
  Bonds(const models::Cluster& cluster, const IsUp& is_up);

  /// The one that a flow from `device` to the device `far` leaves by: a RoCE LAG's choice, else itself. Flows, or all
  /// that is for `far`, are hashed over the functions; what falls to one without link, over the others.
  models::PortRef egress(models::PortRef device, models::PortRef far, std::uint64_t flow) const;

  struct Change {
    models::PortRef from, to;  // of active-backup: the function that was active, and the one that is; else equal
  };
  /// The bond that `function` is in looks at its links. Nothing where it sends as before, or there is no bond.
  std::optional<Change> look(models::PortRef function, const IsUp& is_up);

 private:
  struct State {
    std::vector<bool> enabled;  // by place in Bond::functions
    std::size_t active = 0;     // active-backup: place in Bond::functions
  };
  State& state(models::PortRef port, int bond) {
    return states_[static_cast<std::size_t>(port.node)][static_cast<std::size_t>(bond)];
  }
  const State& state(models::PortRef port, int bond) const {
    return states_[static_cast<std::size_t>(port.node)][static_cast<std::size_t>(bond)];
  }

  const models::Cluster& cluster_;
  std::vector<std::vector<State>> states_;  // by node and bond
};

}  // namespace meshbed::sim
