#include "plugin/net/process/mesh_graph.h"

#include <algorithm>
#include <cstddef>

#include "plugin/base/check.h"

namespace meshbed::net {

MeshGraph::MeshGraph(int nodes) : nodes_(nodes) { MESHBED_CHECK(nodes >= 1 && nodes <= kNodesMost); }

void MeshGraph::join(int left, int right) {
  MESHBED_CHECK(left != right && std::min(left, right) >= 0 && std::max(left, right) < nodes_);
  neighbours_[at(left)] |= 1U << static_cast<unsigned>(right);
  neighbours_[at(right)] |= 1U << static_cast<unsigned>(left);
}

bool MeshGraph::full() const {
  for (int left = 0; left < nodes_; ++left) {
    for (int right = 0; right < left; ++right) {
      if (!joined(left, right)) return false;
    }
  }
  return true;
}

bool MeshGraph::connected() const {
  for (int node = 1; node < nodes_; ++node) {
    if (cables(0, node) == kApart) return false;
  }
  return true;
}

int MeshGraph::cables(int from, int to) const {
  std::uint32_t reached = 1U << static_cast<unsigned>(from);
  for (int length = 0; length < nodes_; ++length) {
    if ((reached >> static_cast<unsigned>(to) & 1U) != 0) return length;
    std::uint32_t further = reached;
    for (int node = 0; node < nodes_; ++node) {
      if ((reached >> static_cast<unsigned>(node) & 1U) != 0) further |= neighbours_[at(node)];
    }
    reached = further;
  }
  return kApart;
}

std::vector<int> MeshGraph::way(int from, int to) const {
  std::vector<int> nodes;
  for (int here = from, left = cables(from, to); left > 0; --left) {
    MESHBED_CHECK(left != kApart);
    int next = 0;
    while (!joined(here, next) || cables(next, to) != left - 1) ++next;
    nodes.push_back(next);
    here = next;
  }
  return nodes;
}

std::vector<int> MeshGraph::shortest_tour() const {
  std::array<std::array<int, kNodesMost>, kNodesMost> length{};
  for (int from = 0; from < nodes_; ++from) {
    for (int to = 0; to < nodes_; ++to) length[at(from)][at(to)] = cables(from, to);
  }
  // rest[visited][last]: the fewest cables from `last` over all nodes that are not visited back to node 0. Filled from
  // the end, so that the tour can be read from its beginning, the lowest of equals first.
  const auto everybody = static_cast<std::uint32_t>((std::uint64_t{1} << static_cast<unsigned>(nodes_)) - 1);
  const std::size_t stride = at(nodes_);
  std::vector<int> rest((std::size_t{everybody} + 1) * stride, kApart);
  const auto after = [&](std::uint32_t visited, int last, int next) {
    return length[at(last)][at(next)] + rest[(visited | 1U << static_cast<unsigned>(next)) * stride + at(next)];
  };
  const auto unvisited = [&](std::uint32_t visited, int node) {
    return (visited >> static_cast<unsigned>(node) & 1U) == 0;
  };
  for (int last = 0; last < nodes_; ++last) rest[everybody * stride + at(last)] = length[at(last)][0];
  for (std::uint32_t visited = everybody - 1; visited > 0; --visited) {
    for (int last = 0; last < nodes_; ++last) {
      if (unvisited(visited, last)) continue;
      int& best = rest[visited * stride + at(last)];
      for (int next = 0; next < nodes_; ++next) {
        if (unvisited(visited, next)) best = std::min(best, after(visited, last, next));
      }
    }
  }
  std::vector<int> tour{0};
  for (std::uint32_t visited = 1; visited != everybody; visited |= 1U << static_cast<unsigned>(tour.back())) {
    const int last = tour.back(), best = rest[visited * stride + at(last)];
    int next = 0;
    while (!unvisited(visited, next) || after(visited, last, next) != best) ++next;
    tour.push_back(next);
  }
  return tour;
}

MeshGraph MeshGraph::renumbered(const std::vector<int>& order) const {
  MESHBED_CHECK(order.size() == at(nodes_));
  MeshGraph result(nodes_);
  for (int left = 0; left < nodes_; ++left) {
    for (int right = 0; right < left; ++right) {
      if (joined(order[at(left)], order[at(right)])) result.join(left, right);
    }
  }
  return result;
}

void CableLoad::add(int from, int to, double weight) {
  int here = from;
  for (const int next : graph_.way(from, to)) {
    load_[static_cast<std::size_t>(here)][static_cast<std::size_t>(next)] += weight;
    here = next;
  }
}

double CableLoad::most() const {
  double most = 0;
  for (const auto& row : load_) most = std::max(most, *std::max_element(row.begin(), row.end()));
  return most;
}

}  // namespace meshbed::net
