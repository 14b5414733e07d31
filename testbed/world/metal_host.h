#pragma once
// MetalHost: a rank that is a process of its own, on a real machine: the system's loader, clock and threads.
//
// Ranks meet at rank 0's store on the management network (plugin/coll/store/store_server.h), which also carries what
// they publish, their failures and their findings. Every wait ends: at the deadline, or when any rank fails or is lost.

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "plugin/base/deadline.h"
#include "plugin/coll/store/store_client.h"
#include "plugin/coll/store/store_server.h"
#include "testbed/workload/rank_host.h"
#include "testbed/world/metal_place.h"

namespace meshbed::testbed {

class MetalHost final : public RankHost {
 public:
  /// Connects to rank 0's store, which rank 0 starts; `deadline` holds for this and for every later wait.
  static Result<std::unique_ptr<MetalHost>> meet(const MetalPlace& place, Deadline deadline);

  int rank() const override { return place_.rank; }
  int ranks() const override { return place_.ranks; }
  const std::string& bootstrap() const override { return bootstrap_; }
  Picoseconds now_ps() const override;
  void idle(const char* why) override;
  void be_elsewhere(Picoseconds duration_ps) override;
  /// As idle(), after a while without events: leaves the processor to others for up to `rest_ms`, or until
  /// another rank's failure arrives. Emulated nodes share the host's processors, and one that spins takes them from
  /// its peer.
  void rest(int rest_ms = 1);
  Result<void> rendezvous() override;
  Result<void> reach(const std::string& point) override;
  Result<void> publish(const std::string& key, const std::string& value) override;
  Result<std::optional<std::string>> look_up(const std::string& key) override;
  bool others_failed() override;
  void run_together(std::vector<RankThread> threads) override;
  Result<void*> load(const std::string& path) override;
  void* symbol(void* library, const char* name) override;

  /// Notifies all ranks that this one has failed; each then returns it from failure().
  void announce_failure(const std::string& text);
  /// "rank 2: ..." of the first rank that failed, as rank 0 has passed it on; empty: none has.
  std::string failure();
  /// Like publish() and look_up(), for texts of any length and waiting until the deadline.
  Result<void> hand_over(const std::string& key, const std::string& text);
  Result<std::string> take_over(const std::string& key);

 private:
  MetalHost(const MetalPlace& place, Deadline deadline) : place_(place), deadline_(deadline) {}
  Error broken();

  MetalPlace place_;
  Deadline deadline_;
  std::string bootstrap_;
  std::unique_ptr<coll::StoreServer> server_;  // rank 0's; outlives the client
  std::mutex store_;                           // of the client, which serves one thread at a time
  std::unique_ptr<coll::StoreClient> client_;
  std::map<std::string, std::uint32_t> asked_;  // look_up() requests under way
  std::mutex baton_;                            // of run_together(): one thread runs at a time
  bool together_ = false;                       // set while no such thread runs
  int idle_turns_ = 0;
};

}  // namespace meshbed::testbed
