// Every operation over every element type and reduction, against a serial reference that knows the order by rank.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <type_traits>
#include <vector>

#include "plugin/base/prng.h"
#include "plugin/coll/plan/datatype.h"
#include "plugin/coll/plan/half.h"
#include "plugin/coll/plan/mesh.h"
#include "plugin/coll/plan/plan.h"
#include "plugin/coll/plan/root_trees.h"
#include "plugin/coll/plan/schedule.h"
#include "tests/coll/mesh_graphs.h"
#include "tests/coll/rank_threads.h"
#include "tests/support/walk.h"

namespace types_test {

using namespace meshbed;
using namespace meshbed::coll;
using namespace meshbed::test;

namespace {

struct World {
  int ranks = 1, channels = 1, steps = 8;
  std::uint64_t slice_bytes = 256;
  const char* algorithm = "ring";
  Mesh mesh{};  // where that is the algorithm
  const char* protocol = "simple";
};

template <typename T>
struct Accumulator {
  using Type = T;
};
template <>
struct Accumulator<Float16> {
  using Type = float;
};
template <>
struct Accumulator<Bfloat16> {
  using Type = float;
};

template <typename T>
typename Accumulator<T>::Type widened(T value) {
  if constexpr (std::is_arithmetic_v<T>) return value;
  if constexpr (!std::is_arithmetic_v<T>) return widen(value);
}

template <typename T>
T narrowed(typename Accumulator<T>::Type value) {
  if constexpr (std::is_same_v<T, Float16>) return to_float16(value);
  if constexpr (std::is_same_v<T, Bfloat16>) return to_bfloat16(value);
  if constexpr (std::is_arithmetic_v<T>) return value;
}

template <typename A>
A combined(ReduceOp op, A one, A other) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
      if constexpr (std::is_integral_v<A>) {
        return static_cast<A>(static_cast<std::uint64_t>(one) + static_cast<std::uint64_t>(other));
      } else {
        return one + other;
      }
    case ReduceOp::kProduct:
      if constexpr (std::is_integral_v<A>) {
        return static_cast<A>(static_cast<std::uint64_t>(one) * static_cast<std::uint64_t>(other));
      } else {
        return one * other;
      }
    case ReduceOp::kMax:
      return one > other ? one : other;
    case ReduceOp::kMin:
      return one < other ? one : other;
  }
  return {};
}

/// Numbers whose sums and products depend on their order, where the type's do at all.
template <typename T>
T value_of(int rank, std::size_t index) {
  const std::uint64_t bits = mix64((static_cast<std::uint64_t>(rank) << 40U) ^ index);
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(bits);
  } else {
    const double value = static_cast<double>(static_cast<std::int64_t>(bits)) * 0x1p-62;
    return narrowed<T>(static_cast<typename Accumulator<T>::Type>(value));
  }
}

template <typename T>
T finished(ReduceOp op, int ranks, typename Accumulator<T>::Type result) {
  if (op == ReduceOp::kAverage) result = static_cast<decltype(result)>(result / static_cast<decltype(result)>(ranks));
  return narrowed<T>(result);
}

/// From `first` on, round the ring: first, first + 1, ..., first - 1.
template <typename T>
T reduced(ReduceOp op, int ranks, int first, std::size_t index) {
  auto result = widened(value_of<T>(first, index));
  for (int step = 1; step < ranks; ++step) {
    result = combined(op, result, widened(value_of<T>((first + step) % ranks, index)));
  }
  return finished<T>(op, ranks, result);
}

/// What a rank of a tree hands up: its first child's with its own, its second's with that.
template <typename T, typename NodeOf>
auto tree_partial(ReduceOp op, int rank, std::size_t index, NodeOf node_of) -> typename Accumulator<T>::Type {
  auto result = widened(value_of<T>(rank, index));
  const TreeNode node = node_of(rank);
  for (const int child : {node.first, node.second}) {
    if (child >= 0) result = combined(op, tree_partial<T>(op, child, index, node_of), result);
  }
  return result;
}

/// What a rank hands over on its way to `top`: the first of those behind it with its own, the second with that, ...
template <typename T>
auto mesh_partial(ReduceOp op, const MeshTree& tree, int top, int rank, std::size_t index) ->
    typename Accumulator<T>::Type {
  auto result = widened(value_of<T>(rank, index));
  const std::vector<int> distances = view_of(tree, top).distances;
  for (const Branch& branch : tree.branches[static_cast<std::size_t>(rank)]) {
    if (distances[static_cast<std::size_t>(branch.rank)] < distances[static_cast<std::size_t>(rank)]) continue;
    result = combined(op, mesh_partial<T>(op, tree, top, branch.rank, index), result);
  }
  return result;
}

/// What the rank at `position` of the halving ones has after `step` exchanges, in which it met its partners' parts.
template <typename T>
auto halving_partial(ReduceOp op, int folded, int position, int step, std::size_t index) ->
    typename Accumulator<T>::Type {
  if (step == 0) {
    const int rank = position < folded ? 2 * position + 1 : position + folded;
    const auto own = widened(value_of<T>(rank, index));
    return position < folded ? combined(op, widened(value_of<T>(rank - 1, index)), own) : own;
  }
  const int partner = position ^ (1 << (step - 1));
  return combined(op, halving_partial<T>(op, folded, partner, step - 1, index),
                  halving_partial<T>(op, folded, position, step - 1, index));
}

/// The part of `range`, and of so many, that `index` is in; `range` becomes that part.
int part_with(std::size_t index, int parts, Range* range) {
  for (int part = 0;; ++part) {
    Range inner = part_of(range->count, static_cast<std::uint64_t>(parts), static_cast<std::uint64_t>(part));
    inner.begin += range->begin;
    if (index >= inner.begin + inner.count) continue;
    *range = inner;
    return part;
  }
}

/// Element `index` of an all_reduce by that world's algorithm.
template <typename T>
T all_reduced(const World& world, ReduceOp op, std::size_t count, std::size_t index) {
  Range range{0, count};
  part_with(index, world.channels, &range);
  if (world.ranks == 1 || std::string(world.algorithm) == "ring") {
    const int chunk = part_with(index, world.ranks, &range);
    return reduced<T>(op, world.ranks, (chunk + 1) % world.ranks, index);
  }
  if (std::string(world.algorithm) == "tree") {
    const int tree = part_with(index, 2, &range);
    const auto node_of = [&](int rank) { return paired_tree(tree, rank, world.ranks); };
    int top = 0;
    while (node_of(top).parent >= 0) ++top;
    return finished<T>(op, world.ranks, tree_partial<T>(op, top, index, node_of));
  }
  if (std::string(world.algorithm) == "mesh") {
    const int which = part_with(index, static_cast<int>(world.mesh.trees.size()), &range);
    const MeshTree& tree = world.mesh.trees[static_cast<std::size_t>(which)];
    return finished<T>(op, world.ranks, mesh_partial<T>(op, tree, tree.top, tree.top, index));
  }
  if (std::string(world.algorithm) == "direct") {
    return reduced<T>(op, world.ranks, part_with(index, world.ranks, &range), index);
  }
  int steps = 0;
  while ((2 << steps) <= world.ranks) ++steps;
  int position = 0;
  for (int step = 0; step < steps; ++step) position |= part_with(index, 2, &range) << step;
  return finished<T>(op, world.ranks, halving_partial<T>(op, world.ranks - (1 << steps), position, steps, index));
}

/// Element `index` of a reduce.
template <typename T>
T root_reduced(const World& world, ReduceOp op, int root, std::size_t count, std::size_t index) {
  if (std::string(world.algorithm) == "mesh" && world.ranks > 1) {
    const RootTrees from_root = root_trees(world.mesh, root);
    const auto& trees = count * sizeof(T) < from_root.packed_from_bytes ? from_root.one : from_root.packed;
    Range range{0, count};
    part_with(index, world.channels, &range);
    const MeshTree& tree = trees[static_cast<std::size_t>(part_with(index, static_cast<int>(trees.size()), &range))];
    return finished<T>(op, world.ranks, mesh_partial<T>(op, tree, root, root, index));
  }
  if (std::string(world.algorithm) != "tree") return reduced<T>(op, world.ranks, (root + 1) % world.ranks, index);
  const auto node_of = [&](int rank) { return rooted_tree(root, rank, world.ranks); };
  return finished<T>(op, world.ranks, tree_partial<T>(op, root, index, node_of));
}

/// Element `index` of what reduce_scatter leaves with `rank`.
template <typename T>
T scattered(const World& world, ReduceOp op, int rank, std::size_t count, std::size_t index) {
  const std::size_t in_input = static_cast<std::size_t>(rank) * count + index;
  if (std::string(world.algorithm) == "mesh" && world.ranks > 1) {
    Range range{0, count};
    part_with(index, world.channels, &range);
    const int which = part_with(index, static_cast<int>(world.mesh.trees.size()), &range);
    const MeshTree& tree = world.mesh.trees[static_cast<std::size_t>(which)];
    return finished<T>(op, world.ranks, mesh_partial<T>(op, tree, rank, rank, in_input));
  }
  const int first = std::string(world.algorithm) == "direct" ? rank : (rank + 1) % world.ranks;
  return reduced<T>(op, world.ranks, first, in_input);
}

template <typename T>
std::vector<T> values_of(int rank, std::size_t count) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = value_of<T>(rank, i);
  return values;
}

template <typename T, typename Expected>
std::size_t wrong_of(const T* values, std::size_t count, Expected expected) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const T want = expected(i);
    wrong += std::memcmp(&values[i], &want, sizeof(T)) != 0 ? 1 : 0;
  }
  return wrong;
}

/// One rank's calls for one type.
template <typename T>
struct Calls {
  meshcoll_comm* comm;
  int rank;
  const World& world;
  meshcoll_dtype dtype;
  std::size_t count;

  std::size_t n() const { return static_cast<std::size_t>(world.ranks); }
  std::size_t mine() const { return static_cast<std::size_t>(rank) * count; }
  void expect(meshcoll_result result, std::size_t wrong, const char* what) const {
    CHECK_MESSAGE(result == MESHCOLL_OK, error_of(comm));
    CHECK_MESSAGE(wrong == 0, what, ": ", wrong, " of ", count, " elements, type ", static_cast<int>(dtype), ", rank ",
                  rank, " of ", world.ranks);
  }

  void reduce(ReduceOp op) const {
    const auto meshcoll_op_of = static_cast<meshcoll_op>(op);
    const std::vector<T> in = values_of<T>(rank, count), blocks = values_of<T>(rank, count * n());
    const auto all = [&](std::size_t i) { return all_reduced<T>(world, op, count, i); };
    std::vector<T> out(count), same = in;
    auto result = meshcoll_all_reduce(comm, in.data(), out.data(), count, dtype, meshcoll_op_of);
    expect(result, wrong_of(out.data(), count, all), "all_reduce");
    result = meshcoll_all_reduce(comm, same.data(), same.data(), count, dtype, meshcoll_op_of);
    expect(result, wrong_of(same.data(), count, all), "all_reduce in place");

    const auto own = [&](std::size_t i) { return scattered<T>(world, op, rank, count, i); };
    std::vector<T> share(count), in_place = blocks;
    result = meshcoll_reduce_scatter(comm, blocks.data(), share.data(), count, dtype, meshcoll_op_of);
    expect(result, wrong_of(share.data(), count, own), "reduce_scatter");
    result = meshcoll_reduce_scatter(comm, in_place.data(), in_place.data() + mine(), count, dtype, meshcoll_op_of);
    expect(result, wrong_of(in_place.data() + mine(), count, own), "reduce_scatter in place");

    for (int root = 0; root < world.ranks; root += 2) {
      const bool is_root = rank == root;
      const auto at_root = [&](std::size_t i) { return root_reduced<T>(world, op, root, count, i); };
      std::vector<T> whole(is_root ? count : 0), over = in;
      result = meshcoll_reduce(comm, in.data(), is_root ? whole.data() : nullptr, count, dtype, meshcoll_op_of, root);
      expect(result, wrong_of(whole.data(), whole.size(), at_root), "reduce");
      result = meshcoll_reduce(comm, over.data(), over.data(), count, dtype, meshcoll_op_of, root);
      const auto before = [&](std::size_t i) { return in[i]; };
      expect(result, is_root ? wrong_of(over.data(), count, at_root) : wrong_of(over.data(), count, before),
             "reduce in place");
    }
  }

  void move() const {
    const std::vector<T> in = values_of<T>(rank, count), blocks = values_of<T>(rank, count * n());
    const auto gathered = [&](std::size_t i) { return value_of<T>(static_cast<int>(i / count), i % count); };
    std::vector<T> all(count * n()), all_in_place(count * n());
    auto result = meshcoll_all_gather(comm, in.data(), all.data(), count, dtype);
    expect(result, wrong_of(all.data(), all.size(), gathered), "all_gather");
    std::copy(in.begin(), in.end(), all_in_place.begin() + static_cast<std::ptrdiff_t>(mine()));
    result = meshcoll_all_gather(comm, all_in_place.data() + mine(), all_in_place.data(), count, dtype);
    expect(result, wrong_of(all_in_place.data(), all.size(), gathered), "all_gather in place");

    const auto turned = [&](std::size_t i) { return value_of<T>(static_cast<int>(i / count), mine() + i % count); };
    std::vector<T> exchanged(count * n()), over = blocks;
    result = meshcoll_all_to_all(comm, blocks.data(), exchanged.data(), count, dtype);
    expect(result, wrong_of(exchanged.data(), exchanged.size(), turned), "all_to_all");
    result = meshcoll_all_to_all(comm, over.data(), over.data(), count, dtype);
    expect(result, wrong_of(over.data(), over.size(), turned), "all_to_all in place");

    for (int root = 0; root < world.ranks; root += 2) {
      const bool is_root = rank == root;
      const auto from_root = [&](std::size_t i) { return value_of<T>(root, i); };
      std::vector<T> spread(count), at_root(is_root ? count * n() : 0), share(count), shares = blocks;
      result = meshcoll_broadcast(comm, is_root ? in.data() : nullptr, spread.data(), count, dtype, root);
      expect(result, wrong_of(spread.data(), count, from_root), "broadcast");
      result = meshcoll_gather(comm, in.data(), is_root ? at_root.data() : nullptr, count, dtype, root);
      expect(result, wrong_of(at_root.data(), at_root.size(), gathered), "gather");
      if (is_root) std::copy(in.begin(), in.end(), shares.begin() + static_cast<std::ptrdiff_t>(mine()));
      result = meshcoll_gather(comm, is_root ? shares.data() + mine() : in.data(), is_root ? shares.data() : nullptr,
                               count, dtype, root);
      if (is_root) expect(result, wrong_of(shares.data(), shares.size(), gathered), "gather in place");

      const auto of_root = [&](std::size_t i) { return value_of<T>(root, mine() + i); };
      result = meshcoll_scatter(comm, is_root ? blocks.data() : nullptr, share.data(), count, dtype, root);
      expect(result, wrong_of(share.data(), count, of_root), "scatter");
      shares = blocks;
      T* const kept = is_root ? shares.data() + mine() : share.data();
      result = meshcoll_scatter(comm, is_root ? shares.data() : nullptr, kept, count, dtype, root);
      expect(result, wrong_of(kept, count, of_root), "scatter in place");
    }

    const int to = (rank + 1) % world.ranks, from = (rank + world.ranks - 1) % world.ranks;
    std::vector<T> received(count);
    result = meshcoll_send_recv(comm, in.data(), count, to, received.data(), count, from, dtype);
    expect(result, wrong_of(received.data(), count, [&](std::size_t i) { return value_of<T>(from, i); }), "send_recv");
  }

  void all() const {
    move();
    if (!is_reducible(static_cast<DataType>(dtype))) return;
    for (int op = 0; op < kReduceOps; ++op) reduce(static_cast<ReduceOp>(op));
  }
};

/// Of twelve types those with a number that is `first`, `first` + `stride`, ...
void types_from(std::size_t first, std::size_t stride, const World& world, const std::vector<std::size_t>& counts) {
  const auto calls = [&](meshcoll_comm* comm, int rank, std::size_t count) {
    std::size_t number = 0;
    const auto of = [&]<typename T>(T, meshcoll_dtype type) {
      if (number++ % stride == first) Calls<T>{comm, rank, world, type, count}.all();
    };
    of(std::int8_t{}, MESHCOLL_INT8);
    of(std::uint8_t{}, MESHCOLL_UINT8);
    of(std::int32_t{}, MESHCOLL_INT32);
    of(std::uint32_t{}, MESHCOLL_UINT32);
    of(std::int64_t{}, MESHCOLL_INT64);
    of(std::uint64_t{}, MESHCOLL_UINT64);
    of(Float16{}, MESHCOLL_FLOAT16);
    of(float{}, MESHCOLL_FLOAT32);
    of(double{}, MESHCOLL_FLOAT64);
    of(Bfloat16{}, MESHCOLL_BFLOAT16);
    of(std::uint8_t{}, MESHCOLL_FLOAT8_E4M3);
    of(std::uint8_t{}, MESHCOLL_FLOAT8_E5M2);
  };
  std::vector<meshcoll_cable> cables;
  std::vector<int> members(static_cast<std::size_t>(world.mesh.ranks));
  std::iota(members.begin(), members.end(), 0);
  for (const MeshCable& cable : cables_among(world.mesh, members)) cables.push_back({cable.a, cable.b, cable.mbps});
  run_ranks(
      world.ranks,
      [&](meshcoll_options& options) {
        options.channels = world.channels;
        options.steps = world.steps;
        options.slice_bytes = world.slice_bytes;
        options.algorithm = world.algorithm;
        options.protocol = world.protocol;
        options.cables = cables.empty() ? nullptr : cables.data();
        options.cable_count = cables.size();
      },
      [&](meshcoll_comm* comm, int rank) {
        for (const std::size_t count : counts) calls(comm, rank, count);
      });
}

struct TypeCase {
  World world;
  std::vector<std::size_t> counts;
  loopback::Behaviour whims{};
};

constexpr loopback::Behaviour kHesitates{.seed = 7, .delay_percent = 40};

/// All of `cases` with all types in the whole walk; else `count` of them, which take turns with the types: of three
/// cases each has a third of them.
void walk_types(const std::vector<TypeCase>& cases, std::size_t count) {
  const std::vector<TypeCase> sample = walk(cases, count);
  const std::size_t stride = walks_whole() ? 1 : std::min<std::size_t>(3, sample.size());
  for (std::size_t number = 0; number < sample.size(); ++number) {
    loopback::configure(sample[number].whims);
    types_from(number % stride, stride, sample[number].world, sample[number].counts);
  }
  loopback::configure({});
}

}  // namespace

TEST_CASE("every operation, type and reduction by other algorithms, on 1..9 ranks and 2 and 3 channels") {
  std::vector<TypeCase> cases;
  for (const char* algorithm : {"tree", "halving-doubling", "direct"}) {
    for (int ranks = 1; ranks <= 9; ++ranks)
      cases.push_back({{.ranks = ranks, .algorithm = algorithm}, {0, 1, 5, 257}});
    cases.push_back({{.ranks = 3, .channels = 2, .algorithm = algorithm}, {7, 3001}});
    cases.push_back({{.ranks = 7, .channels = 3, .steps = 2, .slice_bytes = 64, .algorithm = algorithm}, {2, 997}});
  }
  walk_types(cases, 5);
}

TEST_CASE("every operation, type and reduction by mesh, on the named cablings and on random ones of 2..9 ranks") {
  std::vector<TypeCase> cases;
  for (const MeshGraph& graph : named_graphs()) {
    cases.push_back(
        {{.ranks = graph.ranks, .algorithm = "mesh", .mesh = make_mesh(graph.ranks, graph.cables())}, {1, 257}});
  }
  for (int ranks = 2; ranks <= 9; ++ranks) {
    const Mesh mesh = make_mesh(ranks, random_cables(ranks, ranks, 11));
    cases.push_back(
        {{.ranks = ranks, .channels = 2, .steps = 2, .slice_bytes = 64, .algorithm = "mesh", .mesh = mesh}, {2, 97}});
  }
  const Mesh mesh = make_mesh(5, named_graphs()[4].cables());
  cases.push_back({{.ranks = 5, .steps = 3, .slice_bytes = 100, .algorithm = "mesh", .mesh = mesh}, {301}, kHesitates});
  walk_types(cases, 5);
}

TEST_CASE("every operation, type and reduction in lines by other algorithms, on 1..9 ranks and 2 channels") {
  std::vector<TypeCase> cases;
  for (const char* protocol : {"ll", "ll128"}) {
    for (const char* algorithm : {"ring", "tree", "halving-doubling", "direct"}) {
      for (int ranks = 1; ranks <= 9; ++ranks) {
        cases.push_back({{.ranks = ranks, .algorithm = algorithm, .protocol = protocol}, {0, 1, 257}});
      }
      cases.push_back(
          {{.ranks = 3, .channels = 2, .steps = 2, .slice_bytes = 64, .algorithm = algorithm, .protocol = protocol},
           {7, 997}});
    }
  }
  walk_types(cases, 8);
}

TEST_CASE("every operation, type and reduction in lines, on a plugin that hesitates and on the triangle's mesh") {
  std::vector<TypeCase> cases;
  for (const char* protocol : {"ll", "ll128"}) {
    cases.push_back(
        {{.ranks = 3, .channels = 2, .steps = 3, .slice_bytes = 100, .protocol = protocol}, {301}, kHesitates});
    const Mesh mesh = make_mesh(3, named_graphs()[0].cables());
    cases.push_back({{.ranks = 3, .algorithm = "mesh", .mesh = mesh, .protocol = protocol}, {301}, kHesitates});
  }
  walk_types(cases, 4);
}

TEST_CASE("every operation, type and reduction on 1..9 ranks, for sizes zero, one, odd, prime and fewer than ranks") {
  std::vector<TypeCase> cases;
  for (int ranks = 1; ranks <= 9; ++ranks) cases.push_back({{.ranks = ranks}, {0, 1, 5, 257}});
  walk_types(cases, 4);
}

TEST_CASE("every operation, type and reduction on 2 and 3 channels and with the narrowest window") {
  walk_types({{{.ranks = 3, .channels = 2}, {7, 3001}},
              {{.ranks = 4, .channels = 3, .steps = 2, .slice_bytes = 64}, {2, 997}}},
             2);
}

// The long one of these two is too long for Valgrind and ThreadSanitizer (tests/coll/room.cmake).
TEST_CASE("every operation, type and reduction by every algorithm on a plugin that hesitates, for one size") {
  std::vector<TypeCase> cases;
  for (const char* algorithm : {"tree", "halving-doubling", "direct"}) {
    cases.push_back(
        {{.ranks = 3, .channels = 2, .steps = 3, .slice_bytes = 100, .algorithm = algorithm}, {301}, kHesitates});
  }
  walk_types(cases, 3);
}

TEST_CASE("a plugin that hesitates and completes late changes no bit of any type") {
  std::vector<TypeCase> cases;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    for (const char* algorithm : {"ring", "tree", "halving-doubling", "direct"}) {
      cases.push_back(
          {{.ranks = 2 + static_cast<int>(seed), .channels = 2, .steps = 3, .slice_bytes = 100, .algorithm = algorithm},
           {301},
           {.seed = seed, .delay_percent = 40}});
    }
  }
  walk_types(cases, 2);
}

}  // namespace types_test
