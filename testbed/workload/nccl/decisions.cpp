#include "testbed/workload/nccl/decisions.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "plugin/base/collective.h"

namespace meshbed::testbed {
namespace {

struct TypeName {
  const char* nccl;
  NcclDatatype type;
};
// By ncclDataType_t, as NCCL v2.30.7-1 writes them (src/misc/utils.cc, ncclDatatypeToString), which has no name for
// ncclUint8.
constexpr TypeName kTypes[] = {
    {"ncclInt8", {"int8", 1}},         {"Unknown", {"uint8", 1}},         {"ncclInt32", {"int32", 4}},
    {"ncclUint32", {"uint32", 4}},     {"ncclInt64", {"int64", 8}},       {"ncclUint64", {"uint64", 8}},
    {"ncclFloat16", {"half", 2}},      {"ncclFloat32", {"float", 4}},     {"ncclFloat64", {"double", 8}},
    {"ncclBfloat16", {"bfloat16", 2}}, {"ncclFloat8e4m3", {"f8e4m3", 1}}, {"ncclFloat8e5m2", {"f8e5m2", 1}}};

/// What the caller's count comes to: of an all-gather, a reduce-scatter and their like all ranks' shares.
std::uint64_t size_of_call(const std::string& operation, std::uint64_t bytes, int ranks) {
  const bool of_all = std::any_of(kCollectives.begin(), kCollectives.end(), [&](const CollectiveInfo& each) {
    return operation == each.nccl_name && has_shares(each.collective);
  });
  return of_all ? bytes * static_cast<std::uint64_t>(ranks) : bytes;
}

NcclDecision decision_of(const nlohmann::json& seen) {
  NcclDecision decision{.operation = seen.at("operation"),
                        .datatype = seen.at("datatype"),
                        .ranks = seen.at("ranks"),
                        .algorithm = seen.value("algorithm", ""),
                        .protocol = seen.value("protocol", ""),
                        .channels = seen.at("channels"),
                        .calls = seen.at("calls")};
  const auto type = std::find_if(std::begin(kTypes), std::end(kTypes),
                                 [&](const TypeName& one) { return decision.datatype == one.nccl; });
  const std::uint64_t element_bytes = type != std::end(kTypes) ? type->type.bytes : 1;
  if (type != std::end(kTypes)) decision.datatype = type->type.name;
  decision.bytes =
      size_of_call(decision.operation, seen.at("count").get<std::uint64_t>() * element_bytes, decision.ranks);
  return decision;
}

bool same_choice(const NcclDecision& left, const NcclDecision& right) {
  return left.operation == right.operation && left.datatype == right.datatype && left.bytes == right.bytes &&
         left.ranks == right.ranks && left.algorithm == right.algorithm && left.protocol == right.protocol &&
         left.channels == right.channels;
}

template <typename Combine>
void add(std::vector<NcclDecision>* all, NcclDecision decision, Combine combine) {
  const auto known =
      std::find_if(all->begin(), all->end(), [&](const NcclDecision& one) { return same_choice(one, decision); });
  if (known == all->end()) {
    all->push_back(std::move(decision));
  } else {
    known->calls = combine(known->calls, decision.calls);
  }
}

}  // namespace

std::vector<NcclDecision> read_decisions(const std::string& text) {
  std::vector<NcclDecision> found;
  for (const nlohmann::json& seen : nlohmann::json::parse(text)) {
    add(&found, decision_of(seen), [](std::uint64_t known, std::uint64_t more) { return known + more; });
  }
  return found;
}

void add_decisions(std::vector<NcclDecision>* all, std::vector<NcclDecision> more) {
  for (NcclDecision& decision : more) {
    add(all, std::move(decision), [](std::uint64_t known, std::uint64_t here) { return std::max(known, here); });
  }
}

const NcclDatatype* nccl_datatype(int number) {
  return number >= 0 && number < std::ssize(kTypes) ? &kTypes[number].type : nullptr;
}

}  // namespace meshbed::testbed
