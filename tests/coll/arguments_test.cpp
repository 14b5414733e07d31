#include <doctest/doctest.h>

#include <cstdint>

#include "tests/coll/rank_threads.h"

namespace arguments_test {

using namespace meshbed::test;

namespace {

meshcoll_comm* alone() {
  meshcoll_options options{};
  options.struct_bytes = sizeof options;
  options.world = 1;
  meshcoll_comm* comm = nullptr;
  REQUIRE(meshcoll_init(&options, &comm) == MESHCOLL_OK);
  return comm;
}

}  // namespace

TEST_CASE("options out of range are refused by name") {
  const auto refused = [](const AdjustOptions& adjust, const char* text) {
    meshcoll_options options{};
    options.struct_bytes = sizeof options;
    options.world = 2;
    options.bootstrap = "127.0.0.1:1";
    options.net_plugin = "STATIC_PLUGIN";
    adjust(options);
    meshcoll_comm* comm = nullptr;
    CHECK(meshcoll_init(&options, &comm) == MESHCOLL_INVALID_ARGUMENT);
    CHECK(comm == nullptr);
    CHECK_MESSAGE(contains(error_of(nullptr), text), error_of(nullptr));
  };
  refused([](auto& options) { options.struct_bytes = 8; }, "struct_bytes is 8");
  refused([](auto& options) { options.world = 0; }, "world is 0");
  refused([](auto& options) { options.rank = 2; }, "rank is 2 in a world of 2");
  refused([](auto& options) { options.rank = -1; }, "rank is -1");
  refused([](auto& options) { options.bootstrap = nullptr; }, "bootstrap and options.net_plugin are needed");
  refused([](auto& options) { options.bootstrap = "localhost"; }, "no port");
  refused([](auto& options) { options.bootstrap = "127.0.0.1:70000"; }, "the port is not 1 .. 65535");
  refused([](auto& options) { options.bootstrap = "rank0:29500"; }, "not an IPv4 address");
  refused([](auto& options) { options.bootstrap = "[10.0.0.1]:29500"; }, "not an IPv6 address");
  refused([](auto& options) { options.net_version = 7; }, "net_version is 7");
  refused([](auto& options) { options.channels = 65; }, "channels is 65");
  refused([](auto& options) { options.steps = 1; }, "steps is 1");
  refused([](auto& options) { options.steps = 33; }, "steps is 33");
  refused([](auto& options) { options.slice_bytes = 1ULL << 31U; }, "slice_bytes is more than 1 GiB");
  refused([](auto& options) { options.algorithm = "trees"; },
          "there is no options.algorithm \"trees\"; there are auto ring tree halving-doubling direct mesh torus");
  const auto one_cable = [](const meshcoll_cable& cable) {
    return [&cable](auto& options) {
      options.cables = &cable;
      options.cable_count = 1;
    };
  };
  static constexpr meshcoll_cable kFar{0, 2, 100}, kToItself{1, 1, 100}, kNegative{0, 1, -1};
  refused(one_cable(kFar), "cables[0] is between ranks 0 and 2 of a world of 2");
  refused(one_cable(kToItself), "cables[0] is between ranks 1 and 1");
  refused(one_cable(kNegative), "cables[0] has -1 Mb/s");
  refused([](auto& options) { options.shape = "2x2"; }, "options.shape \"2x2\" is not of the 2 ranks");
  refused([](auto& options) { options.shape = "2x"; }, "options.shape \"2x\" is not of the form");
  refused([](auto& options) { options.shape = "1x2"; }, "options.shape \"1x2\" is not of the form");
  CHECK(meshcoll_init(nullptr, nullptr) == MESHCOLL_INVALID_ARGUMENT);
}

TEST_CASE("a device or a table version that the plugin does not have is refused by name") {
  loopback::configure({});
  const auto refused = [](const AdjustOptions& adjust, meshcoll_result result, const char* text) {
    const std::string address = free_address();
    meshcoll_options options{};
    options.struct_bytes = sizeof options;
    options.world = 2;
    options.bootstrap = address.c_str();
    options.net_plugin = "STATIC_PLUGIN";
    adjust(options);
    meshcoll_comm* comm = nullptr;
    CHECK(meshcoll_init(&options, &comm) == result);
    CHECK_MESSAGE(contains(error_of(nullptr), text), error_of(nullptr));
  };
  static const int kDevices[] = {4};
  refused([](auto& options) { options.channel_devices = kDevices; }, MESHCOLL_INVALID_ARGUMENT,
          "channel 0 wants device 4 of 4");
  refused([](auto& options) { options.net_version = 12; }, MESHCOLL_SYSTEM, "has no table ncclNetPlugin_v12");
}

TEST_CASE("arguments that cannot be meant are refused before anything moves") {
  meshcoll_comm* comm = alone();
  float data[4] = {1, 2, 3, 4};
  const auto dtype = MESHCOLL_FLOAT32;
  const auto sum = MESHCOLL_SUM;
  CHECK(meshcoll_all_reduce(comm, nullptr, data, 4, dtype, sum) == MESHCOLL_INVALID_ARGUMENT);
  CHECK(contains(error_of(comm), "send is null"));
  CHECK(meshcoll_all_reduce(comm, data, nullptr, 4, dtype, sum) == MESHCOLL_INVALID_ARGUMENT);
  CHECK(contains(error_of(comm), "recv is null"));
  CHECK(meshcoll_all_reduce(comm, nullptr, nullptr, 0, dtype, sum) == MESHCOLL_OK);
  CHECK(meshcoll_all_reduce(comm, data, data, SIZE_MAX / 4, dtype, sum) == MESHCOLL_INVALID_ARGUMENT);
  CHECK(contains(error_of(comm), "overflows"));
  CHECK(meshcoll_broadcast(comm, data, data, 4, dtype, 1) == MESHCOLL_INVALID_ARGUMENT);
  CHECK(contains(error_of(comm), "root is 1 in a world of 1"));
  CHECK(meshcoll_send_recv(comm, data, 4, 5, nullptr, 0, -1, dtype) == MESHCOLL_INVALID_ARGUMENT);
  CHECK(meshcoll_send_recv(comm, data, 4, 0, nullptr, 0, -1, dtype) == MESHCOLL_INVALID_ARGUMENT);
  CHECK(contains(error_of(comm), "must come from ourselves"));
  CHECK(meshcoll_send_recv(comm, data, 3, 0, data + 1, 3, 0, dtype) == MESHCOLL_INVALID_ARGUMENT);
  CHECK(contains(error_of(comm), "overlap"));
  CHECK(meshcoll_all_reduce(nullptr, data, data, 4, dtype, sum) == MESHCOLL_INVALID_ARGUMENT);
  meshcoll_stats stats{};
  CHECK(meshcoll_get_stats(comm, &stats) == MESHCOLL_INVALID_ARGUMENT);
  CHECK(meshcoll_destroy(comm) == MESHCOLL_OK);
}

TEST_CASE("data types and reductions that do not exist are unsupported, by number; float8 is moved and never reduced") {
  meshcoll_comm* comm = alone();
  float data[4] = {1, 2, 3, 4};
  const auto unknown_type = static_cast<meshcoll_dtype>(12);
  const auto unknown_op = static_cast<meshcoll_op>(5);
  CHECK(meshcoll_all_reduce(comm, data, data, 4, unknown_type, MESHCOLL_SUM) == MESHCOLL_UNSUPPORTED);
  CHECK(contains(error_of(comm), "no data type 12"));
  CHECK(meshcoll_all_gather(comm, data, data, 4, static_cast<meshcoll_dtype>(-1)) == MESHCOLL_UNSUPPORTED);
  CHECK(contains(error_of(comm), "no data type -1"));
  CHECK(meshcoll_reduce_scatter(comm, data, data, 4, MESHCOLL_FLOAT32, unknown_op) == MESHCOLL_UNSUPPORTED);
  CHECK(contains(error_of(comm), "no reduction 5"));
  CHECK(meshcoll_reduce(comm, data, data, 4, MESHCOLL_FLOAT8_E4M3, MESHCOLL_MAX, 0) == MESHCOLL_UNSUPPORTED);
  CHECK(contains(error_of(comm), "moved, never reduced"));
  CHECK(meshcoll_all_gather(comm, data, data, 4, MESHCOLL_FLOAT8_E4M3) == MESHCOLL_OK);
  CHECK(meshcoll_destroy(comm) == MESHCOLL_OK);
}

TEST_CASE("a buffer that its type's numbers cannot lie in, and an all_to_all that writes over what it has to send") {
  meshcoll_comm* comm = alone();
  double data[4] = {1, 2, 3, 4};
  char* const odd = reinterpret_cast<char*>(data) + 1;
  CHECK(meshcoll_all_reduce(comm, odd, data, 1, MESHCOLL_FLOAT64, MESHCOLL_SUM) == MESHCOLL_INVALID_ARGUMENT);
  CHECK(contains(error_of(comm), "send is not aligned for double, which takes 8 bytes"));
  CHECK(meshcoll_all_reduce(comm, data, odd, 1, MESHCOLL_FLOAT16, MESHCOLL_SUM) == MESHCOLL_INVALID_ARGUMENT);
  CHECK(contains(error_of(comm), "recv is not aligned for half"));
  CHECK(meshcoll_all_reduce(comm, odd, odd, 1, MESHCOLL_INT8, MESHCOLL_SUM) == MESHCOLL_OK);
  CHECK(meshcoll_all_to_all(comm, data, data + 1, 2, MESHCOLL_FLOAT64) == MESHCOLL_INVALID_ARGUMENT);
  CHECK(contains(error_of(comm), "overlap"));
  CHECK(meshcoll_gather(comm, data, data, 1, MESHCOLL_FLOAT64, 1) == MESHCOLL_INVALID_ARGUMENT);
  CHECK(contains(error_of(comm), "root is 1 in a world of 1"));
  CHECK(meshcoll_scatter(comm, nullptr, data, 1, MESHCOLL_FLOAT64, 0) == MESHCOLL_INVALID_ARGUMENT);
  CHECK(contains(error_of(comm), "send is null"));
  CHECK(meshcoll_destroy(comm) == MESHCOLL_OK);
}

TEST_CASE("a world of one copies and needs neither plugin nor network") {
  meshcoll_comm* comm = alone();
  const float in[3] = {1, 2, 3};
  float out[3] = {0, 0, 0};
  CHECK(meshcoll_all_reduce(comm, in, out, 3, MESHCOLL_FLOAT32, MESHCOLL_SUM) == MESHCOLL_OK);
  CHECK(out[2] == 3);
  CHECK(meshcoll_barrier(comm) == MESHCOLL_OK);
  CHECK(meshcoll_destroy(comm) == MESHCOLL_OK);
  CHECK(meshcoll_destroy(nullptr) == MESHCOLL_OK);
  CHECK(meshcoll_version() == MESHCOLL_VERSION);
  CHECK(meshcoll_now_ns() > 0);
}

}  // namespace arguments_test
