// Unique ids: ranks that have no address to agree on meet where rank 0 listens already.
#include <cstdlib>

#include "tests/coll/rank_threads.h"

namespace id_test {

using namespace meshbed::test;

namespace {

std::string id_on_loopback(const char* family) {
  setenv("NCCL_SOCKET_IFNAME", "=lo", 1);
  setenv("NCCL_SOCKET_FAMILY", family, 1);
  char id[MESHCOLL_ID_BYTES] = {};
  CHECK_MESSAGE(meshcoll_get_id(id) == MESHCOLL_OK, error_of(nullptr));
  unsetenv("NCCL_SOCKET_IFNAME");
  unsetenv("NCCL_SOCKET_FAMILY");
  return id;
}

void meet_by(const std::string& id) {
  loopback::configure({});
  run_ranks(
      3, [&](meshcoll_options& options) { options.bootstrap = id.c_str(); },
      [](meshcoll_comm* comm, int) {
        int number = 1;
        CHECK(meshcoll_all_reduce(comm, &number, &number, 1, MESHCOLL_INT32, MESHCOLL_SUM) == MESHCOLL_OK);
        CHECK(number == 3);
      });
}

}  // namespace

TEST_CASE("three ranks meet by a unique id, over IPv4 and over IPv6") {
  const std::string four = id_on_loopback("AF_INET"), six = id_on_loopback("AF_INET6");
  CHECK(four.rfind("127.0.0.1:", 0) == 0);
  CHECK(six.rfind("[::1]:", 0) == 0);
  meet_by(six);
  meet_by(four);
}

TEST_CASE("one id for several communicators, one after the other and while the first lives") {
  loopback::configure({});
  const std::string address = free_address();
  run_ranks(
      3, [&](meshcoll_options& options) { options.bootstrap = address.c_str(); },
      [&](meshcoll_comm* first, int rank) {
        for (int round = 0; round < 3; ++round) {
          meshcoll_options options{};
          options.struct_bytes = sizeof options;
          options.rank = (rank + 1) % 3;  // another rank 0 than the first one's
          options.world = 3;
          options.bootstrap = address.c_str();
          options.net_plugin = "STATIC_PLUGIN";
          options.connect_timeout_ms = 10000;
          meshcoll_comm* second = nullptr;
          REQUIRE_MESSAGE(meshcoll_init(&options, &second) == MESHCOLL_OK, error_of(nullptr));
          for (meshcoll_comm* comm : {first, second}) {
            int number = meshcoll_rank(comm);
            CHECK(meshcoll_all_reduce(comm, &number, &number, 1, MESHCOLL_INT32, MESHCOLL_SUM) == MESHCOLL_OK);
            CHECK(number == 3);
          }
          CHECK(meshcoll_destroy(second) == MESHCOLL_OK);
        }
      });
}

TEST_CASE("a unique id has nowhere to go") {
  CHECK(meshcoll_get_id(nullptr) == MESHCOLL_INVALID_ARGUMENT);
  CHECK(contains(error_of(nullptr), "get_id: id is null"));
}

}  // namespace id_test
