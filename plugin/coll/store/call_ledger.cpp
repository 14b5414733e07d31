#include "plugin/coll/store/call_ledger.h"

#include <algorithm>
#include <map>
#include <utility>

namespace meshbed::coll {
namespace {

constexpr std::size_t kNamedRanksMax = 16;

std::string ranks_text(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t at = 0; at < ranks.size() && at < kNamedRanksMax; ++at) {
    text += (at == 0 ? "" : ", ") + std::to_string(ranks[at]);
  }
  if (ranks.size() > kNamedRanksMax) text += " and " + std::to_string(ranks.size() - kNamedRanksMax) + " more";
  return text;
}

/// The rank's call with that number among those that it has reported; nullptr: none of them is.
const CallSignature* call_with(const std::vector<CallSignature>& calls, std::uint64_t number) {
  const auto found =
      std::find_if(calls.begin(), calls.end(), [&](const CallSignature& call) { return call.number == number; });
  return found != calls.end() ? &*found : nullptr;
}

bool is_pairs(const CallSignature& call) { return call.kind == CallSignature::Kind::kPairs; }

/// The number of the last collective operation that the rank has called.
std::uint64_t last_number(const std::vector<CallSignature>& calls) {
  std::uint64_t number = 0;
  for (const CallSignature& call : calls) number = std::max(number, call.number);
  return number;
}

}  // namespace

void CallLedger::report(std::size_t rank, int peer, std::vector<CallSignature> calls) {
  waiting_ += calls.empty() ? 0 : 1;
  waiting_ -= ranks_[rank].calls.empty() ? 0 : 1;
  ranks_[rank].calls = std::move(calls);
  ranks_[rank].peer = peer >= 0 && static_cast<std::size_t>(peer) < ranks_.size() ? peer : -1;
}

bool CallLedger::is_complete() const {
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [](const Entry& entry) { return entry.left || !entry.calls.empty(); });
}

std::optional<std::uint64_t> CallLedger::differing_number() const {
  std::map<std::uint64_t, const CallSignature*> first;  // by number
  std::optional<std::uint64_t> lowest;
  for (const Entry& entry : ranks_) {
    for (const CallSignature& call : entry.calls) {
      if (is_pairs(call)) continue;
      const auto [known, is_first] = first.try_emplace(call.number, &call);
      if (is_first || *known->second == call) continue;
      if (!lowest || call.number < *lowest) lowest = call.number;
    }
  }
  return lowest;
}

bool CallLedger::waits_for_departed(std::size_t rank) const {
  const Entry& entry = ranks_[rank];
  // The end of a pair detects by itself that its peer has left, and the other ranks are not affected.
  if (entry.left || entry.calls.empty() || is_pairs(entry.calls.front()) || entry.peer < 0) return false;
  return ranks_[static_cast<std::size_t>(entry.peer)].left;
}

/// The peer waits as well, and has not called what the rank waits in: nothing of it can be under way.
bool CallLedger::waits_in_vain(std::size_t rank) const {
  const Entry& entry = ranks_[rank];
  if (entry.calls.empty() || entry.peer < 0) return false;
  const std::vector<CallSignature>& theirs = ranks_[static_cast<std::size_t>(entry.peer)].calls;
  if (theirs.empty()) return false;
  const CallSignature& own = entry.calls.front();
  return is_pairs(own) ? !is_pairs(theirs.front()) : last_number(theirs) < own.number;
}

/// Ranks that wait in a circle, all of them in vain; empty: there is none.
std::vector<std::size_t> CallLedger::circle() const {
  for (std::size_t start = 0; start < ranks_.size(); ++start) {
    std::vector<std::size_t> chain;
    for (std::size_t rank = start; waits_in_vain(rank); rank = static_cast<std::size_t>(ranks_[rank].peer)) {
      const auto before = std::find(chain.begin(), chain.end(), rank);
      if (before != chain.end()) return {before, chain.end()};
      chain.push_back(rank);
    }
  }
  return {};
}

std::string CallLedger::text_of(std::size_t rank, std::uint64_t number) const {
  const Entry& entry = ranks_[rank];
  if (const CallSignature* call = number > 0 ? call_with(entry.calls, number) : nullptr) return to_text(*call);
  if (entry.left) return "has left";
  if (entry.calls.empty()) return "does not wait, as far as is known";
  const CallSignature& current = entry.calls.front();
  std::string text = to_text(current);
  if (is_pairs(current) && entry.peer >= 0) text += " with rank " + std::to_string(entry.peer);
  // Its call with that number is too old to be in the report.
  if (number > 0 && last_number(entry.calls) > number) return "has ended it, and waits in " + text;
  const CallSignature* last = call_with(entry.calls, last_number(entry.calls));
  if (is_pairs(current) && last != nullptr && last->number > 0) text += " after " + short_text(*last);
  return text;
}

CallLedger::Finding CallLedger::describe(std::uint64_t number) const {
  std::vector<std::pair<std::string, std::vector<int>>> groups;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    const std::string text = text_of(rank, number);
    auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& one) { return one.first == text; });
    if (group == groups.end()) group = groups.insert(groups.end(), {text, {}});
    group->second.push_back(static_cast<int>(rank));
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const auto& one, const auto& other) { return one.second.size() < other.second.size(); });
  Finding finding{.text = "the ranks do not call the same operation", .culprit = groups.front().second.front()};
  const char* between = ": ";
  for (const auto& [text, ranks] : groups) {
    finding.text += between + ranks_text(ranks) + ": " + text;
    between = "; ";
  }
  return finding;
}

std::optional<CallLedger::Finding> CallLedger::find() const {
  if (is_empty()) return std::nullopt;
  if (const auto number = differing_number()) return describe(*number);
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (!waits_for_departed(rank)) continue;
    Finding finding = describe(ranks_[rank].calls.front().number);
    finding.culprit = ranks_[rank].peer;
    return finding;
  }
  if (!circle().empty()) return describe(0);
  return std::nullopt;
}

}  // namespace meshbed::coll
