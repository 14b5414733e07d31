#include "cli/bench/bench_measure.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "testbed/base/child_process.h"
#include "testbed/base/json_text.h"
#include "testbed/workload/outcome.h"
#include "testbed/workload/workload.h"
#include "testbed/world/run_workload.h"

namespace meshbed::testbed {

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double simulated_us(const Scenario& scenario, const std::string& name) {
  const auto measured = [&] {
    sim::Recorder recorder(scenario.cluster, "");
    const RunResult result = run_workload(run_world(WorldKind::kSimulated), scenario, {.recorder = &recorder});
    if (!result.simulation.errors.empty()) throw std::runtime_error(result.simulation.errors.front().text);
    if (!result.simulation.ended_well()) throw std::runtime_error("the run made no progress");
    if (result.wrong > 0) throw std::runtime_error(result.first_wrong);
    return nlohmann::json{{"time_ps", result.time_ps}};
  };
  constexpr double kPicosecondsPerMicrosecond = 1e6;
  return json_of_child(measured, name).at("time_ps").get<double>() / kPicosecondsPerMicrosecond;
}

nlohmann::json json_of_child(const std::function<nlohmann::json()>& body, const std::string& name) {
  const ChildProcess child = start_child([&](int pipe) {
    std::string text;
    try {
      text = json_text(body());
    } catch (const std::exception& error) {
      text = json_text(nlohmann::json{{"error", error.what()}});
    }
    const bool written = write(pipe, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    return written ? 0 : 1;
  });
  std::string text;
  std::array<char, 4096> buffer;
  for (ssize_t count; (count = read(child.output, buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  close(child.output);
  int status = 0;
  waitpid(child.process, &status, 0);
  const auto parsed = nlohmann::json::parse(text, nullptr, false);
  if (status != 0 || parsed.is_discarded()) {
    throw std::runtime_error(fmt::format("bench: {} ended with status {}", name, status));
  }
  if (parsed.contains("error")) throw std::runtime_error("bench: " + parsed["error"].get<std::string>());
  return parsed;
}

nlohmann::json bench_machine() {
  std::string cpu = "unknown";
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    cpu = line.substr(line.find(':') + 2);
    break;
  }
  utsname system{};
  uname(&system);
  std::array<char, 32> date{};
  const std::time_t now = std::time(nullptr);
  std::strftime(date.data(), date.size(), "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  return {{"date", date.data()},
          {"meshbed", kVersion},
          {"cpu", cpu},
          {"kernel", fmt::format("{} {}", system.sysname, system.release)},
          {"compiler", __VERSION__}};
}

nlohmann::json bench_provenance() {
  const BuiltFiles files = built_files();
  nlohmann::json all = bench_machine();
  all["plugin_sha256"] = sha256_of_file(files.net_plugin);
  all["local_plugin_sha256"] = sha256_of_file(files.local_plugin);
  all["engine_sha256"] = sha256_of_file(files.engine);
  return all;
}

}  // namespace meshbed::testbed
