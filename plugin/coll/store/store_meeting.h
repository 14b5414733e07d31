#pragma once
// Meets at a store: rank 0 serves it, and every rank is its client.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "plugin/base/deadline.h"
#include "plugin/base/result.h"
#include "plugin/coll/store/frame.h"
#include "plugin/coll/store/store_client.h"
#include "plugin/coll/store/store_server.h"

namespace meshbed::coll {

struct StoreMeeting {
  std::unique_ptr<StoreServer> server;  // rank 0's; destroyed last
  std::unique_ptr<StoreClient> client;
};

/// The limits of StoreServer::Options.
struct StoreLimits {
  std::int64_t linger_ms;
  std::size_t unread_bytes_max;
};

/// `place`: MeetingPlace's text. identity.rank is ours; the limits are for rank 0.
Result<StoreMeeting> meet_at_store(const std::string& place, const Identity& identity, const StoreLimits& limits,
                                   Deadline deadline);

}  // namespace meshbed::coll
