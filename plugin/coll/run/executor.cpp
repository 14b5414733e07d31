#include "plugin/coll/run/executor.h"

#include <array>
#include <map>
#include <optional>
#include <utility>

#include "plugin/coll/store/long_wait.h"

namespace meshbed::coll {
namespace {

// The clock and the store are looked at after this many passes in which nothing moved, ...
constexpr std::uint32_t kIdlePassesPerLook = 16;
// ... and the store, which costs a system call, no more often than this.
constexpr std::int64_t kStorePeriodNs = 10 * kNsPerMs;

Error late(const ChannelRuns& channel_runs, std::int64_t timeout_ms) {
  std::string text = "not finished after " + std::to_string(timeout_ms) + " ms;";
  for (const auto& channel_run : channel_runs) {
    if (!channel_run->finished()) text += " " + channel_run->waiting_for() + ";";
  }
  text.pop_back();
  return {ErrorCode::kTimeout, Scope::kJob, text};
}

Result<void> look_around(StoreClient* store, std::int64_t* next_look_ns) {
  if (store == nullptr) return ok();
  const std::int64_t now = now_ns();
  if (now < *next_look_ns) return ok();
  *next_look_ns = now + kStorePeriodNs;
  auto polled = store->poll(0);
  if (!polled) return polled.error();
  if (store->failure()) return Error{ErrorCode::kRemote, Scope::kJob, *store->failure()};
  return ok();
}

int awaited(const ChannelRuns& channel_runs) {
  for (const auto& channel_run : channel_runs) {
    if (!channel_run->finished() && channel_run->awaited() >= 0) return channel_run->awaited();
  }
  return -1;
}

/// By channel run: the last ones before it on its connections, whose messages match in order. Its own index: none.
std::vector<std::array<std::size_t, 2>> predecessors(const ChannelRuns& channel_runs) {
  std::vector<std::array<std::size_t, 2>> before(channel_runs.size());
  std::array<std::map<const void*, std::size_t>, 2> last;
  for (std::size_t i = 0; i < channel_runs.size(); ++i) {
    const std::array<const void*, 2> comms{channel_runs[i]->send_comm(), channel_runs[i]->recv_comm()};
    for (std::size_t way = 0; way < comms.size(); ++way) {
      before[i][way] = i;
      if (comms[way] == nullptr) continue;
      const auto [known, first] = last[way].try_emplace(comms[way], i);
      if (!first) before[i][way] = std::exchange(known->second, i);
    }
  }
  return before;
}

}  // namespace

Result<void> execute(const ChannelRuns& channel_runs, const ExecuteOptions& options) {
  const Deadline deadline = Deadline::after_ms_or_never(options.timeout_ms);
  std::int64_t next_look_ns = 0;
  std::optional<LongWait> wait;  // while nothing moves
  const auto before = predecessors(channel_runs);
  const auto must_wait = [&](std::size_t index, std::size_t earlier) {
    return earlier != index && !channel_runs[earlier]->finished();
  };
  for (std::uint32_t idle_passes = 0;;) {
    bool moved = false, finished = true;
    for (std::size_t i = 0; i < channel_runs.size(); ++i) {
      ChannelRun& channel_run = *channel_runs[i];
      if (channel_run.finished()) continue;
      if (must_wait(i, before[i][0]) || must_wait(i, before[i][1])) {
        finished = false;
        continue;
      }
      auto advanced = channel_run.advance();
      if (!advanced) return advanced.error();
      moved |= *advanced;
      finished &= channel_run.finished();
    }
    if (finished) return ok();
    if (moved) wait.reset();
    const bool aborted = options.store != nullptr && options.store->aborted();
    if (aborted) next_look_ns = 0;
    if (!aborted && (moved || ++idle_passes % kIdlePassesPerLook != 0)) continue;
    if (deadline.passed()) return late(channel_runs, options.timeout_ms);
    auto looked = look_around(options.store, &next_look_ns);
    if (!looked) return looked.error();
    if (options.store == nullptr || options.long_wait_ms == 0) continue;
    if (!wait) wait.emplace(*options.store, options.long_wait_ms);
    if (auto told = wait->look(awaited(channel_runs)); !told) return told.error();
  }
}

}  // namespace meshbed::coll
