#include "meshbed/compare.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "testbed/base/json_text.h"

namespace meshbed {
namespace {

using json = nlohmann::ordered_json;

std::map<std::string, bool> promises_of(const RunResult& result) {
  std::map<std::string, bool> promises;
  for (const Proof& proof : result.proofs()) promises["proof '" + proof.name + "'"] = proof.ok;
  for (const Proof& each : result.expectations()) promises["expectation '" + each.name + "'"] = each.ok;
  return promises;
}

const char* state_of(const std::map<std::string, bool>& promises, const std::string& name) {
  const auto found = promises.find(name);
  if (found == promises.end()) return "not there";
  return found->second ? "kept" : "broken";
}

double ratio(double right, double left) { return left > 0 && right > 0 ? right / left : 0; }

}  // namespace

Comparison compare(const RunResult& left, const RunResult& right) {
  Comparison comparison{.identical = left.digest() == right.digest(),
                        .same_data = false,
                        .time_ratio = ratio(right.time_s(), left.time_s()),
                        .busbw_ratio = ratio(right.busbw_GBps(), left.busbw_GBps()),
                        .differences = {}};
  const json one = json::parse(left.json()), other = json::parse(right.json());
  comparison.same_data =
      one.at("data") == other.at("data") && one.value("cases", json()) == other.value("cases", json());
  for (const char* key : {"scenario", "seed", "ranks", "collective", "bytes", "iterations", "wrong", "messages",
                          "connections", "retransmissions", "outcome", "plugin_sha256", "engine_sha256"}) {
    if (one.at(key) == other.at(key)) continue;
    comparison.differences.push_back(
        fmt::format("{}: {} and {}", key, testbed::json_text(one.at(key)), testbed::json_text(other.at(key))));
  }
  const auto promised = promises_of(left), also = promises_of(right);
  std::set<std::string> names;
  for (const auto& each : promised) names.insert(each.first);
  for (const auto& each : also) names.insert(each.first);
  for (const std::string& name : names) {
    const std::string before = state_of(promised, name), after = state_of(also, name);
    if (before != after) comparison.differences.push_back(fmt::format("{}: {} and {}", name, before, after));
  }
  if (left.errors().size() != right.errors().size()) {
    comparison.differences.push_back(
        fmt::format("failed ranks: {} and {}", left.errors().size(), right.errors().size()));
  }
  return comparison;
}

}  // namespace meshbed
