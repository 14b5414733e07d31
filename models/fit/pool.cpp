#include "models/fit/pool.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "models/fit/search.h"

namespace meshbed::models {
namespace {

/// Transports whose classes share values; kAlone: each is its own kind.
enum class Family : std::uint8_t { kAlone, kVerbs, kStaged, kUnified, kOffloaded, kTcp, kKernel };

Family family_of(MachineTransport transport) {
  switch (transport) {
    case MachineTransport::kVerbs:
      return Family::kVerbs;
    case MachineTransport::kStaged:
      return Family::kStaged;
    case MachineTransport::kUnified:
      return Family::kUnified;
    case MachineTransport::kEfa:
    case MachineTransport::kTcpx:
      return Family::kOffloaded;  // a cloud's own protocol, driven by a plugin's threads
    case MachineTransport::kTcp:
      return Family::kTcp;
    case MachineTransport::kKernel:
      return Family::kKernel;
    default:
      return Family::kAlone;
  }
}

/// Kernels of one library have something in common; those of two have nothing but their kind.
bool same_family(const Machine& one, const Machine& two) {
  const Family family = family_of(one.transport);
  if (family == Family::kAlone || family_of(two.transport) != family) return false;
  return family != Family::kKernel || one.library == two.library;
}

bool shares_class(const Machine& one, const Machine& two) {
  return std::any_of(one.classes.begin(), one.classes.end(), [&](const std::string& each) {
    return std::find(two.classes.begin(), two.classes.end(), each) != two.classes.end();
  });
}

/// What is known of a machine itself stays.
void lay_over(Machine& machine, const Machine& common, const std::vector<MachineParameter>& shared) {
  for (const MachineParameter parameter : shared) {
    if (!machine.values.at(static_cast<std::size_t>(parameter))) machine.set(parameter, common.value_of(parameter));
  }
}

template <class IsOne>
bool has_point(const std::vector<Peer>& peers, const IsOne& is_one) {
  return std::any_of(peers.begin(), peers.end(), [&](const Peer& peer) {
    return std::any_of(peer.sweeps.begin(), peer.sweeps.end(), [&](const Sweep& sweep) {
      return std::any_of(sweep.points.begin(), sweep.points.end(),
                         [&](const SweepPoint& point) { return is_one(point.call); });
    });
  });
}

/// Values that the peers' points can determine.
std::vector<MachineParameter> shared_by(const std::vector<Peer>& peers) {
  std::vector<MachineParameter> shared{MachineParameter::kLaunchUs, MachineParameter::kNicFraction,
                                       MachineParameter::kNetLatencyUs, MachineParameter::kNetSimpleUs};
  if (has_point(peers, [](const CollectiveCall& call) { return call.ranks > call.nodes; })) {
    shared.push_back(MachineParameter::kIntraSimpleUs);
    shared.push_back(MachineParameter::kIntraLlUs);
  }
  // Only where LL was forced is it known how much of it goes at once.
  if (has_point(peers, [](const CollectiveCall& call) { return call.protocol == CollectiveProtocol::kLl; })) {
    shared.push_back(MachineParameter::kLlWindowBytes);
    shared.push_back(MachineParameter::kLlSpillGBps);
  }
  if (has_point(peers, [](const CollectiveCall& call) { return may_tree(call) && call.ranks > 2; }))
    shared.push_back(MachineParameter::kTreeFraction);
  return shared;
}

/// Mean of e / (1 + e), e = |ln(predicted / measured)|, each sweep of a class and each class weighing the same.
double loss_of(const Machine& machine, const std::vector<Sweep>& sweeps) {
  double sum = 0;
  for (const Sweep& sweep : sweeps) {
    double of_sweep = 0;
    for (const SweepPoint& point : sweep.points) {
      const double error = std::abs(std::log(fitted_us(machine, point) / point.time_us));
      of_sweep += error / (1 + error);
    }
    sum += of_sweep / static_cast<double>(std::max<std::size_t>(sweep.points.size(), 1));
  }
  return sum / static_cast<double>(sweeps.size());
}

std::string names_of(const std::vector<Peer>& peers) {
  std::string names;
  for (const Peer& peer : peers) names += (names.empty() ? "" : ", ") + peer.machine.name;
  return names;
}

}  // namespace

std::vector<Peer> peers_of(const Machine& machine, const std::vector<Peer>& all) {
  std::vector<Peer> peers;
  for (const Peer& peer : all) {
    if (!same_family(machine, peer.machine) || peer.sweeps.empty()) continue;
    if (peer.machine.name == machine.name || shares_class(machine, peer.machine)) continue;
    peers.push_back({without_fits(peer.machine), peer.sweeps});
  }
  return peers;
}

Machine with_pool(Machine machine, const std::vector<Peer>& all) {
  const std::vector<Peer> peers = peers_of(machine, all);
  if (peers.empty()) return machine;
  const std::string source = "one value for all of " + names_of(peers);
  const std::vector<MachineParameter> shared = shared_by(peers);
  Machine expected;  // the library's constants, and the transport's defaults
  expected.transport = machine.transport;
  Machine common = expected;
  constexpr double kLatencyUs = 5;  // where its search begins at least
  for (const MachineParameter parameter : shared)
    put_fitted(common, parameter, common[parameter], Basis::kPooled, source);
  put_fitted(common, MachineParameter::kNetLatencyUs, std::max(kLatencyUs, expected[MachineParameter::kNetLatencyUs]),
             Basis::kPooled, source);
  constexpr double kWindowBytes = 32768, kSpillGBps = 2;  // likewise
  if (std::find(shared.begin(), shared.end(), MachineParameter::kLlWindowBytes) != shared.end()) {
    put_fitted(common, MachineParameter::kLlWindowBytes, kWindowBytes, Basis::kPooled, source);
    put_fitted(common, MachineParameter::kLlSpillGBps, kSpillGBps, Basis::kPooled, source);
  }
  const auto loss = [&](const Machine& values) {
    constexpr double kOfOneSpread = 0.03;
    double sum = 0;
    for (const Peer& peer : peers) {
      Machine own = peer.machine;
      lay_over(own, values, shared);
      sum += loss_of(own, peer.sweeps);
    }
    return sum / static_cast<double>(peers.size()) + kOfOneSpread * ridge_squares(values, expected, shared);
  };
  constexpr double kLast = 1.02;
  descend(common, shared, loss, Basis::kPooled, source, kLast);
  lay_over(machine, common, shared);
  return machine;
}

}  // namespace meshbed::models
