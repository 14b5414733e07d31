#include "testbed/workload/matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "plugin/base/prng.h"
#include "plugin/coll/plan/algorithm.h"
#include "plugin/coll/plan/schedule.h"

namespace meshbed::testbed {
namespace {

using coll::Algorithm;
using coll::DataType;
using coll::ReduceOp;
using models::Collective;

/// Elements that a caller passes; those of blocks are one rank's.
std::vector<std::uint64_t> counts_of(Collective op, DataType type, int ranks, std::uint64_t largest_bytes) {
  constexpr std::uint64_t kOdd = 7, kPrime = 1009;
  const CollectiveShape one = shape_of({.op = op, .type = type, .count = 1}, ranks);
  const std::uint64_t most = largest_bytes / one.bytes;
  std::vector<std::uint64_t> counts;
  for (const std::uint64_t count : {std::uint64_t{0}, std::uint64_t{1}, kOdd, kPrime, most}) {
    if (count <= most && std::find(counts.begin(), counts.end(), count) == counts.end()) counts.push_back(count);
  }
  return counts;
}

/// All there are of one collective, but for roots and shifts.
std::vector<MatrixCase> all_of(Collective op, int ranks, std::uint64_t largest_bytes) {
  std::vector<MatrixCase> found;
  const int reductions = models::reduces(op) ? coll::kReduceOps : 1;
  std::vector<std::string> algorithms{name_of(Algorithm::kRing)};
  for (int number = 1; number < coll::kAlgorithms; ++number) {
    const auto algorithm = static_cast<Algorithm>(number);
    if (has_schedule(algorithm, op)) algorithms.emplace_back(name_of(algorithm));
  }
  std::vector<std::string> protocols = protocol_names();
  protocols.erase(std::remove(protocols.begin(), protocols.end(), "auto"), protocols.end());
  for (int number = 0; number < coll::kDataTypes; ++number) {
    const auto type = static_cast<DataType>(number);
    if (models::reduces(op) && !is_reducible(type)) continue;
    for (int reduction = 0; reduction < reductions; ++reduction) {
      for (const bool in_place : {false, true}) {
        if (in_place && op == Collective::kSendRecv) continue;  // sending and receiving at once needs two buffers
        for (const std::uint64_t count : counts_of(op, type, ranks, largest_bytes)) {
          CollectiveCase wanted{.op = op, .type = type, .reduction = static_cast<ReduceOp>(reduction)};
          wanted.in_place = in_place;
          wanted.count = count;
          for (const std::string& algorithm : algorithms) {
            for (const std::string& protocol : protocols) found.push_back({wanted, algorithm, protocol});
          }
        }
      }
    }
  }
  return found;
}

}  // namespace

std::string MatrixCase::text() const {
  std::string text =
      fmt::format("{} of {} {}", models::name_of(collective.op), *collective.count, coll::name_of(collective.type));
  if (models::reduces(collective.op)) text += fmt::format(", {}", coll::name_of(collective.reduction));
  if (has_root(collective.op)) text += fmt::format(", root {}", collective.root);
  if (collective.op == Collective::kSendRecv) text += fmt::format(", shift {}", collective.shift);
  return text + fmt::format(", {}, {}, {}", algorithm, protocol, collective.in_place ? "in place" : "out of place");
}

std::vector<MatrixCase> matrix_cases(std::uint64_t seed, int cases, int ranks, std::uint64_t largest_bytes) {
  Prng prng(seed);
  std::vector<std::vector<MatrixCase>> left;
  for (const std::string& name : models::collective_names()) {
    left.push_back(all_of(*models::parse_collective(name), ranks, largest_bytes));
  }
  std::vector<MatrixCase> drawn;
  const auto wanted = static_cast<std::size_t>(cases);
  for (bool more = true; more && drawn.size() < wanted;) {
    more = false;
    for (std::vector<MatrixCase>& each : left) {
      if (each.empty() || drawn.size() == wanted) continue;
      std::swap(each[prng.below(each.size())], each.back());
      MatrixCase& chosen = each.back();
      const auto any = [&prng](int below) { return static_cast<int>(prng.below(static_cast<std::uint64_t>(below))); };
      if (has_root(chosen.collective.op)) chosen.collective.root = any(ranks);
      if (ranks > 1) chosen.collective.shift = 1 + any(ranks - 1);  // to oneself says nothing
      drawn.push_back(std::move(chosen));
      each.pop_back();
      more = true;
    }
  }
  std::stable_sort(drawn.begin(), drawn.end(), [](const MatrixCase& one, const MatrixCase& other) {
    return std::tie(one.algorithm, one.protocol) < std::tie(other.algorithm, other.protocol);
  });
  return drawn;
}

bool rounds(const CollectiveCase& wanted) {
  const bool real = wanted.type == DataType::kFloat16 || wanted.type == DataType::kBfloat16 ||
                    wanted.type == DataType::kFloat32 || wanted.type == DataType::kFloat64;
  const bool exact = wanted.reduction == ReduceOp::kMax || wanted.reduction == ReduceOp::kMin;
  return models::reduces(wanted.op) && real && !exact;
}

}  // namespace meshbed::testbed
