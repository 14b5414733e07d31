#include "tests/coll/rank_threads.h"

#include <thread>
#include <vector>

namespace meshbed::test {

void run_ranks(int ranks, const AdjustOptions& adjust, const RankBody& body) {
  const std::string address = free_address();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      meshcoll_options options{};
      options.struct_bytes = sizeof options;
      options.rank = rank;
      options.world = ranks;
      options.bootstrap = address.c_str();
      options.net_plugin = "STATIC_PLUGIN";
      options.connect_timeout_ms = 20000;
      if (adjust) adjust(options);
      meshcoll_comm* comm = nullptr;
      const meshcoll_result result = meshcoll_init(&options, &comm);
      CHECK_MESSAGE(result == MESHCOLL_OK, error_of(nullptr));
      if (result != MESHCOLL_OK) return;
      body(comm, rank);
      CHECK(meshcoll_destroy(comm) == MESHCOLL_OK);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(loopback::open_objects() == 0);
}

}  // namespace meshbed::test
