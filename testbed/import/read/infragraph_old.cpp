// InfraGraph's layout of August and September 2025 (github.com/Keysight/infragraph, docs/src/examples: the examples are
// still in it at 2.5.0): all is below `infrastructure:`, or at the top; a component has `type`; a bandwidth stands in
// the link itself; a connection is a text, "host.0.nic.1.eth.leaf.0.port.3". Instances and components may leave their
// count out: they are as many as the connections name.

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <utility>

#include "testbed/import/read/readers.h"

namespace meshbed::testbed::hosts {
namespace {

using Graph = nlohmann::json;

constexpr std::size_t kOldIndexMost = 16383;

/// Instance, index, component, index, link, and the same of the other end.
struct OldConnection {
  std::string said;
  std::string instance[2], component[2], link;
  std::size_t node[2] = {0, 0}, port[2] = {0, 0};
};

std::string old_text(const Graph& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

OldConnection old_connection(const std::string& said, const Part& part) {
  std::vector<std::string> pieces;
  for (std::size_t at = 0; at <= said.size();) {
    const std::size_t dot = std::min(said.find('.', at), said.size());
    pieces.push_back(said.substr(at, dot - at));
    at = dot + 1;
  }
  OldConnection made;
  made.said = said;
  if (pieces.size() == 9) {
    made.link = pieces[4];
    bool is_right = true;
    for (std::size_t end = 0; end < 2; ++end) {
      const std::size_t first = end == 0 ? 0 : 5;
      const auto node = parse_digits(pieces[first + 1], kOldIndexMost),
                 port = parse_digits(pieces[first + 3], kOldIndexMost);
      is_right = is_right && node && port;
      made.instance[end] = pieces[first];
      made.component[end] = pieces[first + 2];
      made.node[end] = static_cast<std::size_t>(node.value_or(0));
      made.port[end] = static_cast<std::size_t>(port.value_or(0));
    }
    if (is_right) return made;
  }
  refuse_at(
      part, said,
      fmt::format("connections: '{}' is not INSTANCE.INDEX.COMPONENT.INDEX.LINK.INSTANCE.INDEX.COMPONENT.INDEX, as "
                  "host.0.nic.1.eth.leaf.0.port.3; correct it",
                  said.substr(0, 100)));
}

/// A server's `nic` is a NIC, a switch's a port.
void translate_components(Graph& device) {
  if (!device.is_object() || !device.contains("components") || !device["components"].is_array()) return;
  const auto is_of = [&](std::initializer_list<const char*> types) {
    return std::any_of(device["components"].begin(), device["components"].end(), [&](const Graph& each) {
      const std::string type = old_text(each, "type");
      return std::find(types.begin(), types.end(), type) != types.end();
    });
  };
  const bool is_server = is_of({"cpu", "npu", "xpu", "gpu"});
  for (Graph& each : device["components"]) {
    const std::string type = old_text(each, "type");
    if (!each.is_object() || type.empty() || each.contains("choice")) continue;
    each["choice"] = type == "nic" && !is_server ? "port" : type;
  }
}

void translate_link(Graph& link) {
  if (!link.is_object() || !link.contains("bandwidth") || !link["bandwidth"].is_object()) return;
  Graph bandwidth = Graph::object();
  for (const auto& [key, value] : link["bandwidth"].items()) {
    std::string name = key;
    if (name.rfind("giga_", 0) == 0) name.erase(4, 1);
    bandwidth[name] = value;
  }
  link["physical"]["bandwidth"] = bandwidth;
}

using Counts = std::map<std::pair<std::string, std::string>, std::size_t>;  // by instance, and component or ""

void count_up(std::size_t& count, std::size_t index) { count = std::max(count, index + 1); }

void fill_counts(Graph& graph, const Counts& counts) {
  std::map<std::string, std::string> device_of;
  for (Graph& instance : graph["instances"]) {
    const std::string name = old_text(instance, "name"), device = old_text(instance, "device");
    const auto count = counts.find({name, ""});
    if (instance.is_object() && !instance.contains("count") && count != counts.end())
      instance["count"] = std::to_string(count->second);
    device_of[name] = device;
  }
  if (!graph.contains("devices") || !graph["devices"].is_array()) return;
  for (Graph& device : graph["devices"]) {
    if (!device.is_object() || !device.contains("components") || !device["components"].is_array()) continue;
    for (Graph& component : device["components"]) {
      if (!component.is_object() || component.contains("count")) continue;
      std::size_t most = 0;
      for (const auto& [place, count] : counts) {
        const auto known = device_of.find(place.first);
        const bool is_it = known != device_of.end() && known->second == old_text(device, "name") &&
                           place.second == old_text(component, "name");
        if (is_it) most = std::max(most, count);
      }
      if (most > 0) component["count"] = std::to_string(most);
    }
  }
}

}  // namespace

void refuse_at(const Part& part, const std::string& word, const std::string& cause) {
  const std::size_t found = word.empty() ? std::string::npos : part.text.find(word);
  if (found == std::string::npos) refuse(part.path, 0, 0, cause);
  refuse(part.path, line_at(part.text, found), column_at(part.text, found), cause);
}

nlohmann::json in_present_layout(const nlohmann::json& said, const Part& part) {
  const bool is_wrapped = said.is_object() && said.contains("infrastructure") && said["infrastructure"].is_object();
  const Graph& inside = is_wrapped ? said["infrastructure"] : said;
  const bool is_old = inside.is_object() && inside.contains("connections") && inside["connections"].is_array();
  if (!is_old) return inside;
  Graph graph = inside;
  if (!graph.contains("instances") || !graph["instances"].is_array()) {
    refuse_at(part, "connections", "there are connections and no instances; add instances, with the device of each");
  }
  for (const char* list : {"devices", "links"}) {
    if (!graph.contains(list) || !graph[list].is_array()) continue;
    for (Graph& each : graph[list]) {
      translate_components(each);
      translate_link(each);
    }
  }
  Counts counts;
  if (!graph.contains("edges") || !graph["edges"].is_array()) graph["edges"] = Graph::array();
  for (const Graph& each : inside["connections"]) {
    if (!each.is_string()) refuse_at(part, "connections", "connections: they are texts; correct the list");
    const OldConnection connection = old_connection(each.get<std::string>(), part);
    Graph edge{{"link", connection.link}, {"scheme", "one2one"}, {"connection", connection.said}};
    for (std::size_t end = 0; end < 2; ++end) {
      edge[end == 0 ? "ep1" : "ep2"] = {
          {"instance", fmt::format("{}[{}]", connection.instance[end], connection.node[end])},
          {"component", fmt::format("{}[{}]", connection.component[end], connection.port[end])}};
      count_up(counts[{connection.instance[end], ""}], connection.node[end]);
      count_up(counts[{connection.instance[end], connection.component[end]}], connection.port[end]);
    }
    graph["edges"].push_back(std::move(edge));
  }
  fill_counts(graph, counts);
  return graph;
}

}  // namespace meshbed::testbed::hosts
