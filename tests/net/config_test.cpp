// Environment variables.
#include "plugin/net/process/config.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <set>

#include "plugin/base/log.h"

namespace config_test {

using namespace meshbed;
using namespace meshbed::net;

namespace {

const VariableInfo& info(Variable variable) { return kVariables[static_cast<std::size_t>(variable)]; }

std::string g_warnings;

std::string warnings_of(const char* name, const char* value) {
  g_warnings.clear();
  set_log_sink([](LogLevel, const char*, int, const char* text) { g_warnings += std::string(text) + "\n"; });
  ::setenv(name, value, 1);
  (void)Config::from_environment();
  ::unsetenv(name);
  set_log_sink(nullptr);
  return g_warnings;
}

}  // namespace

TEST_CASE("the table is complete: ids in order, names unique, defaults in range, every line explained") {
  std::set<std::string> names;
  for (std::size_t index = 0; index < kVariables.size(); ++index) {
    const VariableInfo& variable = kVariables[index];
    CAPTURE(variable.name);
    CHECK(static_cast<std::size_t>(variable.id) == index);
    CHECK(names.insert(variable.name).second);
    CHECK(std::string(variable.meaning).size() > 5);
    if (variable.kind == ValueKind::kNumber) {
      CHECK(variable.default_value >= variable.min);
      CHECK(variable.default_value <= variable.max);
    }
  }
  for (const char* name : {"GID_INDEX",
                           "DEBUG",
                           "FAST_FAIL",
                           "TIMEOUT_MS",
                           "RETRY_COUNT",
                           "DISABLE_RDMA",
                           "CONN_POOL",
                           "ASYNC_CONNECT",
                           "ENABLE_RELAY",
                           "MAX_RELAY_HOPS",
                           "RING_LOAD_BALANCE",
                           "RING_PREFER_SHORT",
                           "RING_BALANCE_THRESHOLD",
                           "HYBRID_TCP",
                           "TIMEOUT_SEC",
                           "CONNECT_TIMEOUT_SEC",
                           "ACCEPT_TIMEOUT_SEC",
                           "HEALTH_CHECK_INTERVAL_MS",
                           "FATAL_ON_TIMEOUT",
                           "METRICS",
                           "METRICS_INTERVAL_SEC",
                           "MAX_HOPS",
                           "TOPOLOGY"}) {
    CAPTURE(name);
    CHECK(names.count(std::string("NCCL_MESH_") + name) == 1);
  }
}

TEST_CASE("a value is taken from the environment, refused out of range, or the default; and says which") {
  const VariableInfo& variable = info(Variable::kConnectTimeoutSec);
  CHECK(evaluate(variable, nullptr).number == 10);
  CHECK(evaluate(variable, nullptr).source == ValueSource::kDefault);
  CHECK(evaluate(variable, "").source == ValueSource::kDefault);
  CHECK(evaluate(variable, "0").number == 0);
  CHECK(evaluate(variable, "25").source == ValueSource::kEnvironment);
  for (const char* bad : {"ten", "10s", "-1", "99999999999999999999", "1e3"}) {
    CAPTURE(bad);
    const Setting setting = evaluate(variable, bad);
    CHECK(setting.source == ValueSource::kRefused);
    CHECK(setting.number == 10);
    CHECK(setting.problem.find("NCCL_MESH_CONNECT_TIMEOUT_SEC=" + std::string(bad)) == 0);
    CHECK(setting.problem.find("from 0 to 86400") != std::string::npos);
  }
  CHECK(evaluate(info(Variable::kSeed), "0x10").number == 16);
  CHECK(evaluate(info(Variable::kIbHca), "mlx5").text == "mlx5");
}

TEST_CASE("a typo, a refused value and a value without effect cost one warning each") {
  CHECK(warnings_of("NCCL_MESH_CONECT_TIMEOUT", "3") ==
        "NCCL_MESH_CONECT_TIMEOUT is not a variable of this plugin; `meshbed env` lists them\n");
  CHECK(warnings_of("NCCL_MESH_RETRY_COUNT", "0") ==
        "NCCL_MESH_RETRY_COUNT=0 is not a number from 1 to 1000: using 3\n");
  CHECK(warnings_of("NCCL_MESH_METRICS", "0") ==
        "NCCL_MESH_METRICS=0 has no effect: no thread prints metrics; a connection logs what it carried when it is "
        "closed "
        "(INFO)\n");
  CHECK(warnings_of("NCCL_MESH_HYBRID_TCP", "1").empty());
  CHECK(warnings_of("NCCL_SOCKET_IFNAME", "mgmt0").empty());
  CHECK(warnings_of("NCCL_IB_MERGE_NICS", "0").empty());
  CHECK(warnings_of("NCCL_IB_ADDR_FAMILY", "IPv4") ==
        "NCCL_IB_ADDR_FAMILY=IPv4 is not AF_INET or AF_INET6: using the default (all)\n");
  CHECK(warnings_of("NCCL_IB_ADDR_RANGE", "10.0.0.0") ==
        "NCCL_IB_ADDR_RANGE=10.0.0.0 is not an address with a prefix length: using the default (all)\n");
}

TEST_CASE("what is used in place of a refused value says what it means") {
  CHECK(warnings_of("NCCL_MESH_MAX_RELAY_HOPS", "9") ==
        "NCCL_MESH_MAX_RELAY_HOPS=9 is not a number from 0 to 8: using 8 (as NCCL_MESH_MAX_HOPS)\n");
  CHECK(warnings_of("NCCL_MESH_TIMEOUT_SEC", "soon") ==
        "NCCL_MESH_TIMEOUT_SEC=soon is not a number from 0 to 86400: using 0 (never)\n");
  CHECK(warnings_of("NCCL_MESH_GID_INDEX", "256") ==
        "NCCL_MESH_GID_INDEX=256 is not a number from -1 to 255: using -1 (none)\n");
  CHECK(warnings_of("NCCL_SOCKET_FAMILY", "IPv6") ==
        "NCCL_SOCKET_FAMILY=IPv6 is not AF_INET or AF_INET6: using the default (both, IPv4 first)\n");
  CHECK(warnings_of("NCCL_IB_PKEY", "x") == "NCCL_IB_PKEY=x is not a number from 0 to 65535: using 0\n");
}

TEST_CASE("a malformed list costs one warning that names the bad part and what is made of it") {
  struct Malformed {
    const char* name;
    const char* value;
    const char* said;
  };
  const std::vector<Malformed> all{
      {"NCCL_IB_HCA", "a,,b", "element 2 is empty, and left out"},
      {"NCCL_IB_HCA", "a,", "element 2 is empty, and left out"},
      {"NCCL_IB_HCA", ",", "element 1 is empty, and left out; element 2 is empty, and left out; nothing is let in"},
      {"NCCL_IB_HCA", "^", "it names nothing, and is taken as if it were empty"},
      {"NCCL_IB_HCA", "=", "it names nothing, and is taken as if it were empty"},
      {"NCCL_IB_HCA", "^=", "it names nothing, and is taken as if it were empty"},
      {"NCCL_IB_HCA", " ", "it names nothing, and is taken as if it were empty"},
      {"NCCL_IB_HCA", "a:x", "\"a:x\" fits no port, for they are numbered from 1 to 255: \"x\""},
      {"NCCL_IB_HCA", "a,b:0", "\"b:0\" fits no port, for they are numbered from 1 to 255: \"0\""},
      {"NCCL_IB_HCA", "a:999:1", "\"a:999:1\" fits no port, for they are numbered from 1 to 255: \"999\""},
      {"NCCL_IB_HCA", "a:", "\"a:\" has no port behind its colon, and fits all of them"},
      {"NCCL_IB_HCA", "a,:1", "\":1\" has no name, and is left out"},
      {"NCCL_IB_HCA", "a::x", "the rail of \"a::x\" is no number from 0 to 32767, and not taken"},
      {"NCCL_IB_HCA", "a::1:2:3", "the plane of \"a::1:2:3\" is no number from 0 to 32767, and not taken"},
      {"NCCL_IB_HCA", "a, b", "blanks around names do not count"},
      {"NCCL_IB_HCA", "a b", "\"a b\" has a blank in it, and fits no name: commas separate names"},
      {"NCCL_IB_HCA", "a,^b",
       "the mark of \"^b\" counts at the beginning of the list only (^, =, or ^=): it fits no name"},
      {"NCCL_SOCKET_IFNAME", "eth0,,eth1", "element 2 is empty, and left out"},
      {"NCCL_SOCKET_IFNAME", "^", "it names nothing, and is taken as if it were empty"},
      {"NCCL_SOCKET_IFNAME", "^,",
       "element 1 is empty, and left out; element 2 is empty, and left out; nothing is "
       "left out"},
      {"NCCL_SOCKET_IFNAME", "=eth0, eth1 ", "blanks around names do not count"},
  };
  for (const Malformed& one : all) {
    CAPTURE(one.value);
    CHECK(warnings_of(one.name, one.value) == std::string(one.name) + "=" + one.value + ": " + one.said + "\n");
  }
  for (const char* good : {"mlx5", "^=a,b", "=a:1,b:255", "a:1:2:3", "b::1", "^mlx5_0:2", "a:1::7", "a:1:"}) {
    CHECK_MESSAGE(warnings_of("NCCL_IB_HCA", good).empty(), good);
  }
  for (const char* good : {"eth", "=eth0,eth1", "^docker,lo", "eth0.100@x"}) {
    CHECK_MESSAGE(warnings_of("NCCL_SOCKET_IFNAME", good).empty(), good);
  }
}

TEST_CASE("a list means what its warnings say") {
  CHECK(hca_allowed("a, b", "b", 1));
  CHECK(hca_allowed(" =a ,b", "b", 1));
  CHECK(hca_allowed("^", "a", 1));
  CHECK(hca_allowed("^= ", "a", 1));
  CHECK(hca_allowed("a:", "a", 2));
  CHECK(hca_allowed("^,", "a", 1));
  CHECK_FALSE(hca_allowed(",", "a", 1));
  CHECK_FALSE(hca_allowed("a:999", "a", 1));
  CHECK_FALSE(hca_allowed("a:x", "a", 1));
  CHECK_FALSE(hca_allowed(":1", "a", 1));
  CHECK(hca_choice("a::x", "a", 1).rail == -1);
  CHECK(hca_choice("a::1:2:3", "a", 1).plane == -1);
}

TEST_CASE("NCCL's names that mean something here are effective, the others say why not") {
  std::set<std::string> effective, without;
  for (const VariableInfo& variable : kVariables) {
    if (std::string(variable.name).find("NCCL_MESH_") == 0) continue;
    (variable.effective ? effective : without).insert(variable.name);
  }
  for (const char* name :
       {"NCCL_IB_HCA", "NCCL_IB_GID_INDEX", "NCCL_IB_ROCE_VERSION_NUM", "NCCL_IB_TIMEOUT", "NCCL_IB_RETRY_CNT",
        "NCCL_IB_TC", "NCCL_IB_SL", "NCCL_IB_PCI_RELAXED_ORDERING", "NCCL_IB_ADDR_FAMILY", "NCCL_IB_ADDR_RANGE",
        "NCCL_IB_PKEY", "NCCL_IB_FIFO_TC", "NCCL_IB_USE_INLINE", "NCCL_GDR_FLUSH_DISABLE", "NCCL_SOCKET_IFNAME",
        "NCCL_SOCKET_FAMILY", "NCCL_IB_QPS_PER_CONNECTION", "NCCL_TUNER_PLUGIN"}) {
    CAPTURE(name);
    CHECK(effective.count(name) == 1);
  }
  for (const char* name :
       {"NCCL_IB_RETURN_ASYNC_EVENTS", "NCCL_IB_AR_THRESHOLD", "NCCL_IB_MERGE_NICS", "NCCL_IB_SUBNET_AWARE_ROUTING",
        "NCCL_IB_SUBNET_PREFIX_LEN", "NCCL_OOB_NET_IFNAME", "NCCL_IB_DISABLE"}) {
    CAPTURE(name);
    CHECK(without.count(name) == 1);
  }
  CHECK(evaluate(info(Variable::kIbAddressFamily), "AF_INET6").text == "AF_INET6");
  CHECK(evaluate(info(Variable::kIbAddressRange), "fd00::/8").source == ValueSource::kEnvironment);
  CHECK(evaluate(info(Variable::kIbFifoTrafficClass), nullptr).number == kUnset);
}

TEST_CASE("NCCL takes our tuner where NCCL_TUNER_PLUGIN is unset or has one of this file's names") {
  for (const char* name : {"", "mesh", "libnccl-net-mesh.so", "/opt/nccl/libnccl-net-mesh.so", "libnccl-tuner-mesh.so"})
    CHECK_MESSAGE(is_our_tuner(name), name);
  for (const char* name : {"none", "NONE", "example", "libnccl-tuner.so", "/mesh/libnccl-tuner-other.so", "/opt/mesh"})
    CHECK_MESSAGE(!is_our_tuner(name), name);
}

TEST_CASE("fast-fail shortens retries, unless the retries are given") {
  CHECK(Config().queue_pair_timeout() == 18);
  CHECK(Config().queue_pair_retries() == 6);
  ::setenv("NCCL_MESH_FAST_FAIL", "1", 1);
  CHECK(Config::from_environment().queue_pair_timeout() == 14);
  CHECK(Config::from_environment().queue_pair_retries() == 3);
  ::setenv("NCCL_IB_RETRY_CNT", "5", 1);
  CHECK(Config::from_environment().queue_pair_retries() == 5);
  CHECK(Config::from_environment().queue_pair_timeout() == 14);
  ::unsetenv("NCCL_MESH_FAST_FAIL");
  ::unsetenv("NCCL_IB_RETRY_CNT");
}

TEST_CASE("NCCL_IB_HCA: prefixes, whole names, ports, exclusion") {
  CHECK(hca_allowed("", "mlx5_0", 1));
  CHECK(hca_allowed("mlx5", "mlx5_0", 1));
  CHECK_FALSE(hca_allowed("=mlx5", "mlx5_0", 1));
  CHECK(hca_allowed("=mlx5_0,mlx5_1", "mlx5_1", 1));
  CHECK(hca_allowed("mlx5_0:2", "mlx5_0", 2));
  CHECK_FALSE(hca_allowed("mlx5_0:2", "mlx5_0", 1));
  CHECK_FALSE(hca_allowed("^mlx5_0", "mlx5_0", 1));
  CHECK(hca_allowed("^mlx5_0", "mlx5_1", 1));
  CHECK(hca_allowed("^=mlx5_1", "mlx5_10", 1));
  CHECK_FALSE(hca_allowed("a,,b", "c", 1));
  CHECK(hca_allowed("mlx5_0:1:2:3", "mlx5_0", 1));
  CHECK_FALSE(hca_allowed("mlx5_0:2:2:3", "mlx5_0", 1));
  CHECK_FALSE(hca_allowed("^mlx5_0:1:2:3", "mlx5_0", 1));
}

TEST_CASE("NCCL_IB_HCA names rails and planes; what is no number is not said") {
  CHECK(hca_choice("mlx5_0:1:2:3", "mlx5_0", 1).rail == 2);
  CHECK(hca_choice("mlx5_0:1:2:3", "mlx5_0", 1).plane == 3);
  CHECK(hca_choice("mlx5_0::4", "mlx5_0", 2).rail == 4);
  CHECK(hca_choice("mlx5_0::4", "mlx5_0", 2).plane == -1);
  CHECK(hca_choice("=a:1:0,b::1:7", "b", 1).plane == 7);
  CHECK(hca_choice("mlx5_0:1:x:99999", "mlx5_0", 1).rail == -1);
  CHECK(hca_choice("mlx5_0:1:x:99999", "mlx5_0", 1).plane == -1);
  CHECK(hca_choice("", "mlx5_0", 1).rail == -1);
  CHECK(hca_choice("other:1:2", "mlx5_0", 1).rail == -1);
}

}  // namespace config_test
