#include "plugin/coll/plan/torus_shape.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <limits>

namespace meshbed::coll {
namespace {

constexpr std::uint64_t kWhole = 65536;

/// How far two ring neighbours' numbers are apart.
int stride_of(const TorusShape& shape, int dimension) {
  int stride = 1;
  for (int before = 0; before < dimension; ++before) stride *= shape.lengths[static_cast<std::size_t>(before)];
  return stride;
}

int coordinate(const TorusShape& shape, int dimension, int rank) {
  return rank / stride_of(shape, dimension) % shape.lengths[static_cast<std::size_t>(dimension)];
}

int moved(const TorusShape& shape, int dimension, int rank, int by) {
  const int stride = stride_of(shape, dimension), length = shape.lengths[static_cast<std::size_t>(dimension)];
  const int here = coordinate(shape, dimension, rank), there = (here + by + length) % length;
  return rank + (there - here) * stride;
}

/// Mb/s of the slowest cable in each dimension; empty: two ring neighbours have none.
std::vector<int> slowest_cables(const TorusShape& shape, const Mesh& mesh) {
  std::vector<int> mbps(shape.lengths.size(), std::numeric_limits<int>::max());
  for (int rank = 0; rank < mesh.ranks; ++rank) {
    for (int dimension = 0; dimension < shape.dimensions(); ++dimension) {
      const int rate = mesh.mbps(rank, moved(shape, dimension, rank, 1));
      if (rate == 0) return {};
      int& slowest = mbps[static_cast<std::size_t>(dimension)];
      slowest = std::min(slowest, rate);
    }
  }
  return mbps;
}

/// Each cable joins ring neighbours.
bool has_no_other_cables(const TorusShape& shape, const Mesh& mesh) {
  std::size_t each_has = 0;
  for (const int length : shape.lengths) each_has += length == 2 ? 1 : 2;
  return mesh.cables.count() == each_has * static_cast<std::size_t>(mesh.ranks);
}

/// Lengths, the first dimension fastest, of the torus that the mesh is; empty: it is none.
std::vector<int> lengths_of(const Mesh& mesh, TorusShape* shape, int stride) {
  if (stride == mesh.ranks) {
    const bool fits = has_no_other_cables(*shape, mesh) && !slowest_cables(*shape, mesh).empty();
    return fits ? shape->lengths : std::vector<int>{};
  }
  if (mesh.mbps(0, stride) == 0) return {};
  // The ring of rank 0 in this dimension closes with a cable to its last rank.
  for (std::size_t each = mesh.cables.begin[0]; each < mesh.cables.begin[1]; ++each) {
    const int last = mesh.cables.peers[each];
    if (last % stride != 0) continue;
    const int length = last / stride + 1;
    if (mesh.ranks / stride % length != 0) continue;
    shape->lengths.push_back(length);
    std::vector<int> found = lengths_of(mesh, shape, stride * length);
    shape->lengths.pop_back();
    if (!found.empty()) return found;
  }
  return {};
}

/// Of the parts that begin with each dimension. All rings are alike: the same. Else such that neither a dimension's
/// cables nor one part's steps, one after the other, take longer than they must: the value of the game in which one
/// side draws an order and the other a resource, by fictitious play (Brown 1951).
std::vector<double> shares_by_first_dimension(const TorusShape& shape) {
  const auto dimensions = shape.lengths.size();
  const auto is_same = [](const std::vector<int>& all) {
    return std::all_of(all.begin(), all.end(), [&](int each) { return each == all.front(); });
  };
  std::vector<double> shares(dimensions, 1.0 / static_cast<double>(dimensions));
  if (is_same(shape.lengths) && is_same(shape.mbps)) return shares;
  // [first dimension][resource] what the part puts on it: the dimensions' cables, then itself.
  std::vector<std::vector<double>> load(dimensions, std::vector<double>(2 * dimensions));
  for (std::size_t first = 0; first < dimensions; ++first) {
    const std::vector<double> sent = sent_by_dimension(shape, static_cast<int>(first));
    for (std::size_t dimension = 0; dimension < dimensions; ++dimension) {
      // Half of the part goes up and half down, over the same cable's one direction where the ring has two ranks.
      const double both = shape.lengths[dimension] == 2 ? 1 : 0.5;
      load[first][dimension] = both * sent[dimension] / shape.mbps[dimension];
      load[first][dimensions + first] += load[first][dimension];
    }
  }
  constexpr int kRounds = 20'000;
  std::vector<double> drawn(dimensions), met(dimensions), total(2 * dimensions);
  for (int round = 0; round < kRounds; ++round) {
    // Each side answers all that the other one has drawn so far.
    const auto order = static_cast<std::size_t>(std::min_element(met.begin(), met.end()) - met.begin());
    drawn[order] += 1;
    for (std::size_t resource = 0; resource < total.size(); ++resource) total[resource] += load[order][resource];
    const auto busiest = static_cast<std::size_t>(std::max_element(total.begin(), total.end()) - total.begin());
    for (std::size_t other = 0; other < dimensions; ++other) met[other] += load[other][busiest];
  }
  for (std::size_t dimension = 0; dimension < dimensions; ++dimension) shares[dimension] = drawn[dimension] / kRounds;
  return shares;
}

bool has_pairs_alone(const TorusShape& shape) {
  return std::all_of(shape.lengths.begin(), shape.lengths.end(), [](int length) { return length == 2; });
}

void share_out(TorusShape* shape) {
  shape->begins = {0};
  if (!shape->by_cables) {
    shape->begins.push_back(kWhole);
    return;
  }
  const std::vector<double> shares = shares_by_first_dimension(*shape);
  const bool one_way = has_pairs_alone(*shape);  // rings of two turn both ways at once
  double begin = 0;
  for (int way = 0; way < (one_way ? 1 : 2); ++way) {
    for (const double share : shares) {
      begin += share / (one_way ? 1 : 2);
      shape->begins.push_back(static_cast<std::uint32_t>(begin * kWhole + 0.5));
    }
  }
  shape->begins.back() = kWhole;
}

}  // namespace

int TorusShape::place(int part, int dimension, int rank) const {
  const int at = coordinate(*this, dimension, rank);
  return is_up(part) ? at : lengths[static_cast<std::size_t>(dimension)] - 1 - at;
}

int TorusShape::neighbour(int part, int dimension, int rank, int step) const {
  return moved(*this, dimension, rank, is_up(part) ? step : -step);
}

Range TorusShape::share(int part, std::uint64_t count) const {
  const auto at = [&](int which) {
    const std::uint64_t begin = begins[static_cast<std::size_t>(which)];
    return count / kWhole * begin + count % kWhole * begin / kWhole;
  };
  return {at(part), at(part + 1) - at(part)};
}

double TorusShape::portion(int part) const {
  const auto at = static_cast<std::size_t>(part);
  return static_cast<double>(begins[at + 1] - begins[at]) / kWhole;
}

bool is_recursive_halving(const TorusShape& shape) { return !shape.by_cables && has_pairs_alone(shape); }

std::vector<double> sent_by_dimension(const TorusShape& shape, int part) {
  std::vector<double> sent(shape.lengths.size());
  double left = 1;
  for (int step = 0; step < shape.dimensions(); ++step) {
    const auto dimension = static_cast<std::size_t>(shape.dimension(part, step));
    const double length = shape.lengths[dimension];
    sent[dimension] = left * (length - 1) / length;
    left /= length;
  }
  return sent;
}

std::vector<int> prime_factors(int number) {
  std::vector<int> factors;
  for (int factor = 2; number > 1; ++factor) {
    if (factor > number / factor) factor = number;
    for (; number % factor == 0; number /= factor) factors.push_back(factor);
  }
  return factors;
}

Result<std::vector<int>> parse_shape(const std::string& text, int ranks) {
  const auto wrong = [&](const std::string& why) {
    return Error{ErrorCode::kInvalidArgument, Scope::kRequest, "shape \"" + text + "\" " + why};
  };
  std::vector<int> lengths;
  std::int64_t product = 1;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (bool more = true; more;) {
    int length = 0;
    const auto [behind, error] = std::from_chars(at, end, length);
    if (error != std::errc() || length < 2 || (behind != end && *behind != 'x')) {
      return wrong("is not of the form \"4x4x8\", each length 2 or more");
    }
    lengths.push_back(length);
    product *= length;
    if (product > ranks) break;
    more = behind != end;
    at = behind + 1;
  }
  if (product == ranks) return lengths;
  return wrong("is not of the " + std::to_string(ranks) + " ranks that there are");
}

TorusShape torus_shape(const Mesh& mesh, const std::vector<int>& wanted) {
  TorusShape shape;
  const bool knows_cables = mesh.cables.count() > 0;
  if (!wanted.empty()) {
    shape.lengths = wanted;
  } else if (knows_cables) {
    shape.lengths = lengths_of(mesh, &shape, 1);
  } else {
    shape.lengths = prime_factors(mesh.ranks);
  }
  if (knows_cables && !shape.lengths.empty()) shape.mbps = slowest_cables(shape, mesh);
  shape.by_cables = !shape.mbps.empty();
  // One ring, one way, is the ring's.
  if (!shape.by_cables && shape.lengths.size() < 2) return {};
  if (mesh.ranks == 2) return {};
  share_out(&shape);
  return shape;
}

}  // namespace meshbed::coll
