#include "plugin/coll/store/store_meeting.h"

#include <utility>

#include "plugin/coll/store/job_key.h"

namespace meshbed::coll {

Result<StoreMeeting> meet_at_store(const std::string& place, const Identity& identity, const StoreLimits& limits,
                                   Deadline deadline) {
  StoreMeeting meeting;
  if (identity.rank == 0) {
    const auto where = parse_meeting_place(place);
    if (!where) return where.error();
    auto server = StoreServer::start({.address = where->address,
                                      .identity = identity,
                                      .linger_ms = limits.linger_ms,
                                      .key = where->key,
                                      .unread_bytes_max = limits.unread_bytes_max});
    if (!server) return server.error();
    meeting.server = std::move(*server);
  }
  auto client = StoreClient::connect(place, identity, deadline);
  if (!client) return client.error();
  meeting.client = std::move(*client);
  return meeting;
}

}  // namespace meshbed::coll
