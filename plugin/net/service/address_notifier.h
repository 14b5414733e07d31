#pragma once
// Where an address or a GID of ours changes, no packet reaches the receive queue pairs that stood on it any more, and
// their senders would learn of it by all retries of their adapters, seconds in which nothing moves. So they are told,
// over the cable itself, from the address that it has now (MOVED), and take their connections up again at once. Belongs
// to the service's thread. Senders behind relays are not told: only the last relay is known here, and its circuit ends.

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

  /// A port told of something: tells whoever must know, and tries for some seconds, since the new address may not serve
  /// yet, nor a sender have its connection.
  void look();
  void advance();
  bool busy() const { return looks_again_ || !calls_.empty(); }
  /// Adds what poll(2) should look for while it is busy.
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
  std::map<Key, IpAddress> told_;  // which address, of ends that are there
  bool looks_again_ = false;
  Deadline next_look_, ends_;
};

}  // namespace meshbed::net
