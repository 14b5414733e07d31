#pragma once
// What everybody who accepts a connection does with the one that asks.

#include "plugin/base/result.h"
#include "plugin/net/connection.h"
#include "plugin/net/wire.h"

namespace meshbed::net {

class Transport;

/// Our end for a client that dialled our address `own` from `client` and says that it is `peer`: the NIC whose address
/// it dialled, for that TCP arrived there is the proof of the cable. An error is the reason to refuse it.
Result<LocalEnd> local_end_for(Transport& transport, const IpAddress& own, const IpAddress& client,
                               const WireEnd& peer);

/// Whether `own` is the address of one of our RDMA ports: who came in there is a neighbour.
bool is_of_cable(const Transport& transport, const IpAddress& own);

}  // namespace meshbed::net
