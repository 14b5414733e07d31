// Which devices of a shared kernel are a node's own.
#include "testbed/world/metal_devices.h"

#include <doctest/doctest.h>

#include <stdexcept>

#include "plugin/net/process/config.h"

namespace metal_devices_test {

using meshbed::testbed::MetalDevices;

TEST_CASE("a rank's own devices are named wholly, so that no other node's fits") {
  const MetalDevices devices({{"rocep1s0f0", "mb1p0"}, {"rocep1s0f1", "mb1p1"}});
  const std::string list = devices.device_list("");
  CHECK(list == "=mb1p0,mb1p1");
  CHECK(meshbed::hca_allowed(list, "mb1p1", 1));
  for (const char* other : {"mb0p0", "mb1p10", "mb11p0", "rocep1s0f0"})
    CHECK_FALSE(meshbed::hca_allowed(list, other, 1));
}

TEST_CASE("what the scenario asks for by its own names is asked for by this machine's") {
  const MetalDevices devices({{"rocep1s0f0", "mb1p0"}, {"rocep1s0f1", "mb1p1"}});
  CHECK(devices.device_list("rocep1s0f1") == "=mb1p1");
  CHECK(devices.device_list("=rocep1s0f0:1") == "=mb1p0");
  CHECK(devices.device_list("^rocep1s0f0") == "=mb1p1");
  // None of them is not all of them.
  CHECK_FALSE(meshbed::hca_allowed(devices.device_list("mlx5"), "mb1p0", 1));
}

TEST_CASE("names go into the variable and back, and the trace speaks the scenario's") {
  const MetalDevices devices = MetalDevices::parse("rocep1s0f0=mb1p0,rocep1s0f1=mb1p1");
  CHECK(devices.text() == "rocep1s0f0=mb1p0,rocep1s0f1=mb1p1");
  CHECK(devices.scenario_name("mb1p1") == "rocep1s0f1");
  CHECK(devices.scenario_name("mlx5_0") == "mlx5_0");
  CHECK(MetalDevices::parse("").empty());
  for (const char* bad : {"rocep1s0f0", "=mb0p0", "a=b,c="}) {
    CHECK_THROWS_WITH_AS(MetalDevices::parse(bad), doctest::Contains("MESHBED_DEVICES: \""), std::runtime_error);
  }
}

}  // namespace metal_devices_test
