// InfraGraph: its present layout and the older one.
#include <doctest/doctest.h>

#include <stdexcept>
#include <string>

#include "testbed/import/import.h"

namespace graph_test {

using namespace meshbed::testbed::hosts;

namespace {

std::string problem(const std::string& path, const std::string& text) {
  try {
    (void)read_text(path, text);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("InfraGraph in YAML and JSON: instances, slices, schemes and rates") {
  const std::string yaml = R"(name: pod
devices:
- name: server
  components: [{choice: nic, name: nic, count: 2}, {choice: xpu, name: gpu, count: 4}]
- name: box
  components: [{choice: port, name: port, count: 8}]
instances:
- {name: host, device: server, count: 2}
- {name: leaf, device: box, count: 1}
links:
- name: fast
  physical: {bandwidth: {choice: gigabits_per_second, gigabits_per_second: 400}}
edges:
- {ep1: {instance: "host[0:2]", component: "nic[0]"}, ep2: {instance: leaf, component: "port[0:2]"}, link: fast, scheme: one2one}
)";
  const std::string json =
      R"({"name": "pod", "devices": [{"name": "server", "components": [{"choice": "nic", "name": "nic",
"count": 2}]}, {"name": "box", "components": [{"choice": "port", "name": "port", "count": 8}]}], "instances": [{"name":
"host", "device": "server", "count": 2}, {"name": "leaf", "device": "box", "count": 1}], "links": [{"name": "fast",
"physical": {"bandwidth": {"gigabits_per_second": 400}}}], "edges": [{"ep1": {"instance": "host", "component": "nic[0]"},
"ep2": {"instance": "leaf", "component": "port[0:2]"}, "link": "fast", "scheme": "one2one"}]})";
  for (const Machines& machines : {read_text("pod.yaml", yaml), read_text("pod.json", json)}) {
    REQUIRE(machines.hosts.size() == 2);
    CHECK(machines.hosts[1].name.value == "host.1");
    REQUIRE(machines.hosts[0].nics.size() == 1);  // the other one has no edge
    CHECK(machines.hosts[0].nics[0].rate_bps.value == 400'000'000'000);
    REQUIRE(machines.cables.size() == 2);
    CHECK(machines.cables[1].node[0] == "host.1");
    CHECK(machines.cables[1].port[1] == "port.1");
    CHECK(machines.switches.size() == 1);
  }
}

TEST_CASE("InfraGraph's older layout: connections, types and bandwidths in the link; counts that are left out") {
  const std::string pod = R"(infrastructure:
  devices:
    - name: server
      components:
        - {name: xpu, type: xpu, count: 2}
        - {name: nic, type: nic, external: true}
    - name: box
      components: [{name: asic, type: custom, count: 1}, {name: port, type: nic, count: 4}]
  links:
    - {name: eth, bandwidth: {choice: giga_bytes_per_second, giga_bytes_per_second: 50}}
  instances:
    - {name: host, device: server}
    - {name: leaf, device: box, count: 1}
    - {name: spare, device: nothing-of-that-name}
  connections:
    - host.0.nic.0.eth.leaf.0.port.0
    - host.1.nic.0.eth.leaf.0.port.1
    - host.1.nic.1.eth.leaf.0.port.2
)";
  std::string bare = pod.substr(pod.find('\n') + 1);  // without infrastructure:, two columns to the left
  for (std::size_t at = 0; at != std::string::npos; at = bare.find("\n  ", at + 1)) bare.erase(at == 0 ? 0 : at + 1, 2);
  for (const std::string& text : {pod, bare}) {
    const Machines machines = read_text("pod.yaml", text);
    REQUIRE(machines.hosts.size() == 2);
    CHECK(machines.hosts[1].name.value == "host.1");
    CHECK(machines.hosts[0].gpus.size() == 2);
    REQUIRE(machines.hosts[1].nics.size() == 2);
    CHECK(machines.hosts[0].nics[0].rate_bps.value == 400'000'000'000);
    REQUIRE(machines.switches.size() == 1);
    CHECK(machines.switches[0].name == "leaf");
    REQUIRE(machines.cables.size() == 3);
    CHECK(machines.cables[2].node[0] == "host.1");
    CHECK(machines.cables[2].port[0] == "nic.1");
  }
  CHECK(read_text("pod.yaml", pod).cables[2].source == "pod.yaml:18");
  const auto broken = [&](const std::string& part, const std::string& with) {
    std::string text = pod;
    text.replace(text.find(part), part.size(), with);
    return problem("pod.yaml", text);
  };
  CHECK(
      broken("host.0.nic.0.eth.leaf", "host.0.nic.eth.leaf").rfind("pod.yaml:16:7: connections: 'host.0.nic.eth", 0) ==
      0);
  CHECK(broken("name: leaf, device: box", "name: leaf, device: bax")
            .rfind("pod.yaml:13:28: instances: leaf is of device 'bax', which is not under devices", 0) == 0);
  CHECK(broken("host.1.nic.1.eth.leaf.0.port.2", "guest.1.nic.1.eth.leaf.0.port.2")
            .rfind("pod.yaml:18:7: edges: 'guest' is no instance", 0) == 0);
  CHECK(broken("host.1.nic.1.eth.leaf.0.port.2", "host.1.nic.1.eth.leaf.0.pin.2")
            .find("'pin' is no component of device 'box'") != std::string::npos);
  CHECK(broken("  instances:", "  things:").rfind("pod.yaml:3:5: devices: InfraGraph's devices without instances", 0) ==
        0);
  CHECK(problem("pod.yaml", "infrastructure:\n  connections: [a.0.b.0.c.d.0.e.0]\n")
            .rfind("pod.yaml:2:3: there are connections and no instances", 0) == 0);
}

}  // namespace graph_test
