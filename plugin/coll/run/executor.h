#pragma once
// Executor: drives the channel runs of one operation to their end. Progress thread only.

#include <cstdint>
#include <vector>

#include "plugin/base/result.h"
#include "plugin/coll/run/channel_run.h"
#include "plugin/coll/store/store_client.h"

namespace meshbed::coll {

struct ExecuteOptions {
  StoreClient* store = nullptr;   // where a failure elsewhere shows; nullptr: alone
  std::int64_t timeout_ms = 0;    // 0: none
  std::int64_t long_wait_ms = 0;  // after this time without progress the store gets a report; 0: never
};

/// ChannelRuns may share a connection: the later one begins when the earlier has ended.
/// Returns when every channel run is finished, one has failed, a peer has announced a failure or the time is up (the
/// error then contains what each unfinished channel run waits for). After an error transfers may still be in flight.
Result<void> execute(const ChannelRuns& channel_runs, const ExecuteOptions& options);

}  // namespace meshbed::coll
