#include "tests/coll/rank_threads.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>
#include <vector>

namespace meshbed::test {

std::string free_address() {
  const int descriptor = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  REQUIRE(bind(descriptor, reinterpret_cast<sockaddr*>(&address), length) == 0);
  REQUIRE(getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &length) == 0);
  close(descriptor);
  return "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
}

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
