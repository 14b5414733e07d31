#pragma once
// Call ledger: the last calls of the ranks that have waited for long, and whether these calls can ever match. Kept by
// rank 0's store, whose thread alone uses it. Empty as long as ranks do not wait: an operation that ends costs nothing.
//
// A finding is a proof, not a guess: two ranks whose n-th collective operations differ; a rank that waits for one that
// has left; ranks that wait in a circle, each for one that has not called the operation and waits itself.
// Cost of a look: O(ranks that wait * kCallsReported).

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plugin/coll/plan/signature.h"

namespace meshbed::coll {

class CallLedger {
 public:
  explicit CallLedger(std::size_t world) : ranks_(world) {}

  /// `rank` waits for `peer` (-1: for all, or for no rank in particular). `calls`: its last ones, as decode_calls().
  void report(std::size_t rank, int peer, std::vector<CallSignature> calls);
  /// It waits no longer.
  void forget(std::size_t rank) { report(rank, -1, {}); }
  /// It has left; what it reported before stays.
  void leave(std::size_t rank) { ranks_[rank].left = true; }

  struct Finding {
    std::string text;  // "the ranks do not call the same operation: rank 2: broadcast 1, ...; ranks 0, 1: ..."
    int culprit = 0;   // of the smallest group that differs from the others
  };
  std::optional<Finding> find() const;
  bool is_empty() const { return waiting_ == 0; }
  /// Every rank has reported or left: a later finding would contain no more.
  bool is_complete() const;

 private:
  struct Entry {
    std::vector<CallSignature> calls{};  // empty: it does not wait, as far as is known
    int peer = -1;
    bool left = false;
  };
  std::optional<std::uint64_t> differing_number() const;
  bool waits_for_departed(std::size_t rank) const;
  bool waits_in_vain(std::size_t rank) const;
  std::vector<std::size_t> circle() const;
  Finding describe(std::uint64_t number) const;
  /// The rank's report about operation `number`; 0: about the operation that it waits in.
  std::string text_of(std::size_t rank, std::uint64_t number) const;

  std::vector<Entry> ranks_;
  std::size_t waiting_ = 0;  // ranks that have reported
};

}  // namespace meshbed::coll
