// meshbed-run: one run of libmeshbed, in a separate process (testbed/library/run_protocol.h). Not for use in a shell.

#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <fstream>
#include <functional>
#include <new>
#include <nlohmann/json.hpp>
#include <ostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "sim/trace/recorder.h"
#include "testbed/base/diagnostics.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/files.h"
#include "testbed/base/json_text.h"
#include "testbed/base/progress.h"
#include "testbed/library/child/message_columns.h"
#include "testbed/library/run_protocol.h"
#include "testbed/render/render.h"
#include "testbed/result/expect.h"
#include "testbed/result/run_document.h"
#include "testbed/result/verdict.h"
#include "testbed/scenario/findings/findings.h"
#include "testbed/world/run_workload.h"
#include "testbed/world/world.h"

namespace meshbed::testbed {
namespace {

/// Shows progress to the process that waits for this one.
class SharedViewer final : public ProgressViewer {
 public:
  explicit SharedViewer(SharedProgress& shared) : shared_(shared) {}
  void begin(const std::string& /*label*/, int total, int /*done*/) override {
    shared_.done = 0;
    shared_.total = total;
  }
  void show(int done) override { shared_.done = done; }
  void simulated(std::uint64_t /*messages*/, std::int64_t /*at_ps*/) override {}
  void end() override {}

 private:
  SharedProgress& shared_;
};

/// Writes into a memory file of the caller's; throws std::runtime_error where not all of it was taken.
void write_handed(int descriptor, const std::function<void(std::ostream&)>& write) {
  std::ofstream file(handed_file(descriptor), std::ios::binary);
  write(file);
  if (!file.flush()) throw std::runtime_error("no memory is left for what the run has to hand back");
}

void reply(const nlohmann::ordered_json& words) {
  write_handed(kReplyDescriptor, [&](std::ostream& out) { out << json_text(words); });
}

nlohmann::ordered_json run_request(const nlohmann::ordered_json& request) {
  const Scenario scenario = parse_scenario(request.at("text").get<std::string>(), request.at("path").get<std::string>(),
                                           request.at("overrides").get<std::vector<std::string>>());
  MessageColumns columns;
  sim::Recorder recorder(scenario.cluster, "");
  const bool messages = request.at("messages").get<bool>();
  if (messages) recorder.also_to(columns);
  RunResult result = run_workload(run_world(WorldKind::kSimulated), scenario, {.recorder = &recorder});
  add_process_usage(result);
  check_expectations(scenario, result);
  nlohmann::ordered_json words{{"summary", json_of(document::run_document({.scenario = scenario, .result = result}))},
                               {"failure", failure_line(result)}};
  if (messages) {
    write_handed(kMessagesDescriptor, [&](std::ostream& out) { words["columns"] = columns.write_to(out); });
    words["message_count"] = columns.count();
  }
  return words;
}

int serve() {
  nlohmann::ordered_json request;
  try {
    request = nlohmann::ordered_json::parse(read_text_file(handed_file(kRequestDescriptor)));
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
  try {
    reply(run_request(request));
  } catch (const std::exception& error) {
    reply({{"error", error.what()}});
  }
  return kExitOk;
}

}  // namespace
}  // namespace meshbed::testbed

int main() { return meshbed::testbed::serve(); }
