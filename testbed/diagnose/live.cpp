#include "testbed/diagnose/live.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "testbed/diagnose/read/read.h"
#include "testbed/result/state_client.h"
#include "testbed/result/state_report.h"

namespace meshbed::testbed::diagnose {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

Line host_line(const std::string& file, const std::string& text) { return {.file = file, .number = 1, .text = text}; }

void ports(Case& found) {
  const fs::path root = "/sys/class/infiniband";
  std::error_code problem;
  std::size_t count = 0, active = 0;
  for (const fs::directory_entry& device : fs::directory_iterator(root, problem)) {
    for (const fs::directory_entry& port : fs::directory_iterator(device.path() / "ports", problem)) {
      ++count;
      const std::string name = device.path().filename().string() + ":" + port.path().filename().string();
      const std::string state = first_line(port.path() / "state"), rate = first_line(port.path() / "rate");
      found.add_fact("port_state." + name, state, host_line((port.path() / "state").string(), state));
      found.add_fact("port_rate." + name, rate, host_line((port.path() / "rate").string(), rate));
      active += state.find("ACTIVE") != std::string::npos ? 1U : 0U;
    }
  }
  const Line at = host_line(root.string(), fmt::format("{} ports, {} active", count, active));
  found.add_fact("rdma_ports", count, at);
  if (count == 0) {
    found.add_sign(CauseCode::kNoRdmaDevice, 0.70, "live: devices", "this host, or this container, has no RDMA device",
                   at);
  } else if (active == 0) {
    found.add_sign(CauseCode::kPortDown, 0.80, "live: ports", "no RDMA port is active", at);
  }
  if (count > 0 && !fs::exists("/dev/infiniband", problem)) {
    found.add_sign(CauseCode::kNoRdmaDevice, 0.85, "live: /dev/infiniband",
                   "there are RDMA devices, and no /dev/infiniband", host_line("/dev/infiniband", ""));
  }
}

/// With CAP_IPC_LOCK the limit does not count (ib_umem_get, drivers/infiniband/core/umem.c).
bool may_lock_all() {
  constexpr unsigned kIpcLock = 14;  // linux/capability.h
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.rfind("CapEff:", 0) == 0) return (std::strtoull(line.c_str() + 7, nullptr, 16) >> kIpcLock & 1U) != 0;
  }
  return false;
}

void limits(Case& found) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return;
  const bool unlimited = limit.rlim_cur == RLIM_INFINITY;
  const Line at = host_line("ulimit -l", unlimited ? "unlimited" : fmt::format("{}", limit.rlim_cur / 1024));
  found.add_fact("memlock", at.text, at);
  const Fact* const devices = found.find_fact("rdma_ports");
  const bool has_devices = devices != nullptr && devices->value.get<std::size_t>() > 0;
  const bool is_low = !unlimited && limit.rlim_cur < kEnoughMemlockBytes;
  if (is_low && may_lock_all()) found.add_fact("cap_ipc_lock", true, host_line("/proc/self/status", ""));
  if (is_low && has_devices && !may_lock_all()) {
    found.add_sign(CauseCode::kMemlock, 0.70, "live: memlock", "the limit of locked memory is low", at);
  }
}

void jobs(Case& found) {
  const StateSockets sockets = find_state_sockets();
  if (sockets.paths.empty())
    found.add_fact("missing", "no running job with a mesh plugin was found in /tmp/meshbed-*/",
                   host_line("meshbed state", ""));
  for (const std::string& path : sockets.paths) {
    const StateAnswer answer = ask_for_state(path);
    if (!answer.problem.empty()) continue;
    try {
      const document::Value state = parse_state(answer.text);
      found.add_fact("state", state_verdict(state), host_line(path, ""));
      for (const std::string& stuck : stuck_lines(state)) {
        const Line at = host_line(path, stuck.substr(0, kLineShown));
        found.add_fact("waits", stuck, at);
        found.match(at);
      }
    } catch (const std::runtime_error& error) {
      found.add_fact("missing", error.what(), host_line(path, ""));
    }
  }
}

}  // namespace

void read_this_host(Case& found) {
  found.formats.insert("this host");
  ports(found);
  limits(found);
  std::ifstream modules("/proc/modules");
  std::string line;
  bool has_peermem = false, has_nvidia = false;
  while (std::getline(modules, line)) {
    has_peermem = has_peermem || line.rfind("nvidia_peermem ", 0) == 0;
    has_nvidia = has_nvidia || line.rfind("nvidia ", 0) == 0;
  }
  found.add_fact("nvidia_peermem", has_peermem, host_line("/proc/modules", ""));
  found.add_fact("nvidia", has_nvidia, host_line("/proc/modules", ""));
  jobs(found);
  found.add_fact("missing", "the kernel log: give `dmesg > FILE` as root", host_line("dmesg", ""));
}

}  // namespace meshbed::testbed::diagnose
