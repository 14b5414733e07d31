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
#include "testbed/world/replay/replay_run.h"
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

namespace {

double microseconds_of_child(const std::function<nlohmann::json()>& body, const std::string& name) {
  constexpr double kPicosecondsPerMicrosecond = 1e6;
  return json_of_child(body, name).at("time_ps").get<double>() / kPicosecondsPerMicrosecond;
}

}  // namespace

double simulated_us(const Scenario& scenario, const std::string& name) {
  const auto measured = [&] {
    sim::Recorder recorder(scenario.cluster, "");
    const RunResult result = run_workload(run_world(WorldKind::kSimulated), scenario, {.recorder = &recorder});
    if (!result.simulation.errors.empty()) throw std::runtime_error(result.simulation.errors.front().text);
    if (!result.simulation.ended_well()) throw std::runtime_error("the run made no progress");
    if (result.wrong > 0) throw std::runtime_error(result.first_wrong);
    return nlohmann::json{{"time_ps", result.time_ps}};
  };
  return microseconds_of_child(measured, name);
}

double replayed_us(const Scenario& scenario, const std::string& name) {
  return microseconds_of_child([&] { return nlohmann::json{{"time_ps", run_replay(scenario).time_ps}}; }, name);
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

namespace {

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

std::string date_text() {
  std::array<char, 32> date{};
  const std::time_t now = std::time(nullptr);
  std::strftime(date.data(), date.size(), "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  return date.data();
}

}  // namespace

document::Section bench_machine() {
  using document::text;
  document::Section section{.key = "provenance", .title = "Provenance"};
  section.with({text("date", "of the measurement, UTC"), text("meshbed", "its version"),
                text("cpu", "the processor's model"), text("kernel", "the operating system's"),
                text("compiler", "that built this program")});
  utsname system{};
  uname(&system);
  section.set("date", date_text());
  section.set("meshbed", kVersion);
  section.set("cpu", processor_name());
  section.set("kernel", fmt::format("{} {}", system.sysname, system.release));
  section.set("compiler", __VERSION__);
  return section;
}

document::Section bench_provenance() {
  using document::text;
  const BuiltFiles files = built_files();
  document::Section section = bench_machine();
  section.with({text("plugin_sha256", "of the net plugin"), text("local_plugin_sha256", "of the plugin within a host"),
                text("engine_sha256", "of the collective engine")});
  section.set("plugin_sha256", sha256_of_file(files.net_plugin));
  section.set("local_plugin_sha256", sha256_of_file(files.local_plugin));
  section.set("engine_sha256", sha256_of_file(files.engine));
  return section;
}

document::Document bench_document(const std::string& name) {
  document::Section section{.title = "Benchmark"};
  section.with({document::text("benchmark", "its name")});
  section.set("benchmark", name);
  return {.title = "bench " + name, .sections = {std::move(section)}};
}

}  // namespace meshbed::testbed
