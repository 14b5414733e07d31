#pragma once
// A receiver's record of striped messages: which requests wait for stripes that rails have not delivered yet.
//
// On each rail stripes arrive in the order of their messages, so counting is enough: a request is complete when every
// rail has delivered as many stripes as all requests up to this one have there. Requests complete in order.

#include <array>
#include <cstddef>
#include <cstdint>

#include "plugin/net/wire/ring.h"

namespace meshbed::net {

struct Request;

class StripeLedger {
 public:
  bool empty() const { return head_ == tail_; }
  void arrived(std::size_t rail) { ++arrived_[rail]; }

  /// The QP link has delivered its part of this request. `rails`: the rails over which its parts come too, one mask a
  /// part, 0: none. At most kRingEntries requests may wait.
  template <typename Masks>
  void add(Request& request, const Masks& rails) {
    for (const std::uint32_t mask : rails) {
      for (std::size_t rail = 0; rail < kMaxRails; ++rail) expected_[rail] += mask >> rail & 1U;
    }
    waiting_[tail_++ % waiting_.size()] = {&request, expected_};
  }
  /// Removes and returns the oldest waiting request if it is complete. nullptr: it is not, or there is none.
  Request* take_complete() {
    if (empty()) return nullptr;
    const Waiting& oldest = waiting_[head_ % waiting_.size()];
    for (std::size_t rail = 0; rail < kMaxRails; ++rail) {
      if (arrived_[rail] < oldest.stripes[rail]) return nullptr;
    }
    ++head_;
    return oldest.request;
  }

 private:
  using Counts = std::array<std::uint64_t, kMaxRails>;  // from the QP link's beginning
  struct Waiting {
    Request* request = nullptr;
    Counts stripes{};
  };
  Counts arrived_{}, expected_{};
  std::array<Waiting, kRingEntries> waiting_{};
  std::uint64_t head_ = 0, tail_ = 0;
};

}  // namespace meshbed::net
