#pragma once
// When an address or a GID of ours changes, no packet reaches the receive queue pairs that used it, and their senders
// would notice only after all retries of their adapters, seconds in which nothing moves. So the senders are notified
// over the cable itself, from its present address (MOVED), and resume their connections at once. Belongs to the
// service's thread. Senders behind relays are not notified: only the last relay is known here, and its circuit ends.

#include <poll.h>

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "plugin/base/deadline.h"
#include "plugin/net/connect/service_call.h"
#include "plugin/net/link/qp_link.h"
#include "plugin/net/rdma/receive.h"

namespace meshbed::net {

class ProcessLinks;

class AddressNotifier {
 public:
  explicit AddressNotifier(ProcessLinks& process) : process_(process) {}

  /// After a port event: notifies the senders, and repeats it for some seconds, because the new address may not work
  /// yet and a sender may not have its connection yet.
  void look();
  void advance();
  bool busy() const { return looks_again_ || !calls_.empty(); }
  /// Adds what poll(2) should wait for while it is busy.
  void watch(std::vector<pollfd>& watched) const;

 private:
  using Key = std::tuple<std::uint64_t, int, std::uint32_t>;  // session, device, queue pair
  struct Call {
    Key key;
    IpAddress address;
    std::unique_ptr<ServiceCall> call;
  };
  void tell_all();

  ProcessLinks& process_;
  std::vector<Call> calls_;
  std::map<Key, IpAddress> told_;  // the address last sent for each end
  bool looks_again_ = false;
  Deadline next_look_, ends_;
};

}  // namespace meshbed::net
