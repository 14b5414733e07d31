#include "sim/host/file/sysfs_tree.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <utility>

#include "sim/host/host_state.h"

namespace meshbed::sim {
namespace {

constexpr std::array<std::string_view, 6> kProcessFiles{"/cmdline", "/comm", "/environ", "/exe", "/ns", "/status"};
constexpr int kLinksMax = 40;  // path_resolution(7)
// A tree takes 30 KiB and is seldom looked at after a rank has found its devices; it is soon made again.
constexpr std::size_t kTreesMax = 8;

std::vector<std::string> split(std::string_view path) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    if (end > at) parts.emplace_back(path.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

std::string join(const std::vector<std::string>& parts) {
  std::string path;
  for (const auto& part : parts) path += "/" + part;
  return path.empty() ? "/" : path;
}

}  // namespace

std::string process_path(std::string_view path) {
  constexpr std::string_view kFolder = "/proc/";
  if (!path.starts_with(kFolder)) return "";
  const std::string_view below = path.substr(kFolder.size());
  const std::size_t end = std::min(below.find('/'), below.size());
  const std::string_view who = below.substr(0, end), rest = below.substr(end);
  const bool is_number = !who.empty() && who.find_first_not_of("0123456789") == who.npos;
  if (is_number) return std::string(path);
  // What the machine knows better, as maps and fd, stays its own.
  const bool is_ours = std::any_of(kProcessFiles.begin(), kProcessFiles.end(), [&](std::string_view name) {
    return rest == name || rest.starts_with(std::string(name) + "/");
  });
  if (who != "self" || !is_ours) return "";
  return std::string(kFolder) + std::to_string(process_id_of(*World::current_process())) + std::string(rest);
}

bool is_sysfs_path(std::string_view path) {
  for (const std::string_view prefix :
       {"/sys/class/infiniband", "/sys/class/net", "/sys/devices", "/sys/bus/pci", "/sys/module/nvidia_peermem",
        "/sys/module/nv_peer_mem", "/sys/kernel/mm/memory_peers", "/proc/sys/kernel/random", "/proc/net/route",
        "/proc/net/ipv6_route"}) {
    // "/sys/class/infiniband" stands for infiniband_verbs, _mad and _cm as well.
    if (path.starts_with(prefix)) return true;
  }
  return false;
}

SysfsTree& current_sysfs() {
  const int node = World::current_process()->node;
  auto& trees = host().sysfs;
  if (trees.size() >= kTreesMax && !trees.contains(node)) trees.clear();
  auto& tree = trees[node];
  if (tree == nullptr) tree = std::make_unique<SysfsTree>(node);
  return *tree;
}

SysfsTree::Found SysfsTree::find(std::string_view path, bool follow_last) const {
  const auto begin = split(path);
  std::deque<std::string> left(begin.begin(), begin.end());
  std::vector<std::pair<std::string, const SysfsNode*>> way;  // below the root
  const auto here = [&] { return way.empty() ? &root_ : way.back().second; };
  const auto path_so_far = [&] {
    std::vector<std::string> names;
    for (const auto& [name, node] : way) names.push_back(name);
    return join(names);
  };
  int links = 0;
  while (!left.empty()) {
    const std::string name = std::move(left.front());
    left.pop_front();
    if (here()->kind != SysfsNode::Kind::kDirectory) return {.error = ENOTDIR};
    if (name == ".") continue;
    if (name == "..") {
      if (!way.empty()) way.pop_back();
      continue;
    }
    const auto child = here()->children.find(name);
    if (child == here()->children.end()) return {.error = ENOENT};
    const SysfsNode* node = child->second.get();
    if (node->kind == SysfsNode::Kind::kLink && (follow_last || !left.empty())) {
      if (++links > kLinksMax) return {.error = ELOOP};
      const auto target = split(node->link_target());
      left.insert(left.begin(), target.begin(), target.end());
      continue;
    }
    way.emplace_back(name, node);
  }
  return {.node = here(), .path = path_so_far()};
}

SysfsNode& SysfsTree::at(const std::string& path) {
  SysfsNode* node = &root_;
  for (const auto& name : split(path)) {
    auto& child = node->children[name];
    if (child == nullptr) child = std::make_unique<SysfsNode>();
    node = child.get();
  }
  return *node;
}

void SysfsTree::add_file(const std::string& path, std::function<std::string()> read) {
  SysfsNode& file = at(path);
  file.kind = SysfsNode::Kind::kFile;
  file.read = std::move(read);
}

void SysfsTree::add_text(const std::string& path, std::string text) {
  add_file(path, [text = std::move(text)] { return text + "\n"; });
}

void SysfsTree::add_link(const std::string& path, const std::string& absolute_target) {
  const auto from = split(path);
  const auto to = split(absolute_target);
  std::size_t common = 0;
  while (common + 1 < from.size() && common < to.size() && from[common] == to[common]) ++common;
  std::string target;
  for (std::size_t up = common + 1; up < from.size(); ++up) target += "../";
  for (std::size_t down = common; down < to.size(); ++down) target += to[down] + (down + 1 < to.size() ? "/" : "");
  SysfsNode& link = at(path);
  link.kind = SysfsNode::Kind::kLink;
  link.target = std::move(target);
}

}  // namespace meshbed::sim
