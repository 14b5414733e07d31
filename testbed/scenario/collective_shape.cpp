#include "testbed/scenario/collective_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "plugin/coll/plan/algorithm.h"
#include "plugin/coll/plan/algorithm_choice.h"
#include "testbed/base/closest_name.h"

namespace meshbed::testbed {
namespace {

using models::Collective;

template <typename Value>
std::vector<std::string> names_of(int count) {
  std::vector<std::string> names;
  for (int number = 0; number < count; ++number) names.emplace_back(name_of(static_cast<Value>(number)));
  return names;
}

/// Where `name` stands among the accepted ones.
int parse_named(const std::string& option, const std::string& what, const std::string& name,
                const std::vector<std::string>& accepted) {
  const auto found = std::find(accepted.begin(), accepted.end(), name);
  if (found != accepted.end()) return static_cast<int>(found - accepted.begin());
  const std::string close = closest_name(name, accepted);
  throw std::runtime_error(fmt::format("{} {}: there is no such {}{}; accepted: {}", option, name, what,
                                       close.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", close),
                                       list_names(accepted)));
}

}  // namespace

CollectiveShape shape_of_count(Collective op, std::uint64_t count, int ranks, coll::DataType type) {
  const std::uint64_t all = count * static_cast<std::uint64_t>(ranks);
  CollectiveShape shape{.count = count, .send_count = count, .recv_count = count, .bytes = 0};
  if (has_shares(info_of(op).receives)) shape.recv_count = all;
  if (has_shares(info_of(op).sends)) shape.send_count = all;
  shape.bytes = std::max(shape.send_count, shape.recv_count) * size_of(type);
  return shape;
}

CollectiveShape shape_of(Collective op, std::uint64_t bytes, int ranks, coll::DataType type) {
  const std::uint64_t elements = bytes / size_of(type);
  if (!has_shares(op)) return shape_of_count(op, elements, ranks, type);
  const std::uint64_t alignment = kShareBytes / size_of(type);
  return shape_of_count(op, elements / static_cast<std::uint64_t>(ranks) / alignment * alignment, ranks, type);
}

std::vector<std::string> data_type_names() { return names_of<coll::DataType>(coll::kDataTypes); }
std::vector<std::string> reduction_names() { return names_of<coll::ReduceOp>(coll::kReduceOps); }
std::vector<std::string> algorithm_names() { return coll::algorithm_names(); }
std::vector<std::string> protocol_names() { return coll::protocol_choice_names(); }

coll::DataType parse_data_type(const std::string& option, const std::string& name) {
  return static_cast<coll::DataType>(parse_named(option, "data type", name, data_type_names()));
}

coll::ReduceOp parse_reduction(const std::string& option, const std::string& name) {
  return static_cast<coll::ReduceOp>(parse_named(option, "reduction", name, reduction_names()));
}

std::uint64_t smallest_bytes(Collective op, int ranks, coll::DataType type) {
  return has_shares(op) ? kShareBytes * static_cast<std::uint64_t>(ranks) : size_of(type);
}

}  // namespace meshbed::testbed
