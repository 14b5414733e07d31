// meshbed-run: one run of libmeshbed's, in a process of its own (testbed/library/run_protocol.h). Not for a shell.

#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/trace/recorder.h"
#include "testbed/base/diagnostics.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/files.h"
#include "testbed/base/json_text.h"
#include "testbed/base/progress.h"
#include "testbed/library/message_columns.h"
#include "testbed/library/run_protocol.h"
#include "testbed/report/expect.h"
#include "testbed/report/report.h"
#include "testbed/scenario/findings/findings.h"
#include "testbed/world/run_workload.h"
#include "testbed/world/world.h"

namespace meshbed::testbed {
namespace {

/// Shows progress to the process that waits for this one.
class SharedViewer final : public ProgressViewer {
 public:
  explicit SharedViewer(SharedProgress& shared) : shared_(shared) {}
  void begin(const std::string& /*label*/, int total) override {
    shared_.done = 0;
    shared_.total = total;
  }
  void show(int done) override { shared_.done = done; }
  void end() override {}

 private:
  SharedProgress& shared_;
};

bool reply(const nlohmann::ordered_json& words) {
  const std::string text = json_text(words);
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t count = ::write(kReplyDescriptor, text.data() + at, text.size() - at);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    at += static_cast<std::size_t>(count);
  }
  return true;
}

nlohmann::ordered_json run_request(const nlohmann::ordered_json& request) {
  const Scenario scenario = parse_scenario(request.at("text").get<std::string>(), request.at("path").get<std::string>(),
                                           request.at("overrides").get<std::vector<std::string>>());
  MessageColumns columns;
  sim::Recorder recorder(scenario.cluster, "");
  const bool messages = request.at("messages").get<bool>();
  if (messages) recorder.also_to(columns);
  RunResult result = run_workload(run_world(kSimulatedWorld), scenario, {.recorder = &recorder});
  add_process_usage(result);
  check_expectations(scenario, result);
  nlohmann::ordered_json words{{"summary", summary(scenario, result)}, {"failure", failure_line(result)}};
  if (messages) {
    words["columns"] = columns.write_to(kMessagesDescriptor);
    words["message_count"] = columns.count();
  }
  return words;
}

int serve() {
  nlohmann::ordered_json request;
  try {
    request = nlohmann::ordered_json::parse(read_text_file("/proc/self/fd/" + std::to_string(kRequestDescriptor)));
  } catch (const std::exception&) {
    std::fputs("meshbed-run: libmeshbed starts it (meshbed/run.h); in a shell, meshbed run SCENARIO\n", stderr);
    return kExitUsage;
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != request.at("parent").get<pid_t>()) return kExitUsage;  // it has ended
  void* const page =
      ::mmap(nullptr, sizeof(SharedProgress), PROT_READ | PROT_WRITE, MAP_SHARED, kProgressDescriptor, 0);
  if (page == MAP_FAILED) return kExitUsage;
  SharedViewer viewer(*new (page) SharedProgress);
  set_progress_viewer(&viewer);
  bool replied = false;
  try {
    replied = reply(run_request(request));
  } catch (const std::exception& error) {
    replied = reply({{"error", error.what()}});
  }
  return replied ? kExitOk : kExitUsage;
}

}  // namespace
}  // namespace meshbed::testbed

int main() { return meshbed::testbed::serve(); }
