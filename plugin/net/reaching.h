#pragma once
// The connecting side as connect() polls it: straight over a shared subnet where there is one, else through a chain of
// relays, which is looked for first. A chain that fails is looked for afresh until the time is up.

#include <memory>
#include <vector>

#include "plugin/base/result.h"
#include "plugin/net/chain_search.h"
#include "plugin/net/clock.h"
#include "plugin/net/connecting.h"
#include "plugin/net/handle.h"
#include "plugin/net/send.h"

namespace meshbed::net {

class Reaching {
 public:
  /// Errors (kUnreachable names both sides' subnets) are logged.
  static Result<std::unique_ptr<Reaching>> begin(Transport& transport, const Handle& peer, int dev, int traffic_class);

  /// The connection, or nullptr: not yet. After an error the object is of no use. Errors are logged.
  Result<std::unique_ptr<SendConnection>> advance();

 private:
  Reaching(Transport& transport, const Handle& peer, int dev, int traffic_class);
  Result<void> go_straight(const Route& route);
  /// True: a chain was found, and its first leg has begun.
  Result<bool> search();
  Result<void> go_through(const std::vector<Hop>& hops);
  LocalEnd local_end(const Route& route);

  Transport& transport_;
  Handle peer_;
  int dev_;
  int traffic_class_;
  std::vector<Nic> nics_;
  std::unique_ptr<SendConnection> connection_;
  std::unique_ptr<Connecting> connecting_;  // its leg
  // Only where relays are needed:
  std::unique_ptr<ChainSearch> search_;
  Error no_path_;
  Deadline give_up_;
};

}  // namespace meshbed::net
