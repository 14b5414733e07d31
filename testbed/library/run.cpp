#include "meshbed/run.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "plugin/base/deadline.h"
#include "plugin/base/descriptor.h"
#include "testbed/base/diagnostics.h"
#include "testbed/base/files.h"
#include "testbed/base/json_text.h"
#include "testbed/library/result_state.h"
#include "testbed/library/run_protocol.h"
#include "testbed/library/scenario_state.h"
#include "testbed/scenario/findings/findings.h"

namespace meshbed {

RunError::~RunError() = default;
RunCancelled::~RunCancelled() = default;

namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

constexpr std::size_t kOutputMost = std::size_t{4} << 20U;
constexpr int kLookMs = 100;
// Above those that a process of ours begins with: posix_spawn's dup2 must not hit one that is still to be handed over.
constexpr int kLowestDescriptor = 16;

RunError failed(const std::string& what) { return RunError(fmt::format("{}: {}", what, std::strerror(errno))); }

Descriptor above_the_handed(Descriptor descriptor) {
  const int number = ::fcntl(descriptor.number(), F_DUPFD_CLOEXEC, kLowestDescriptor);
  if (number < 0) throw failed("no descriptor is left for a run");
  return Descriptor(number);
}

Descriptor memory_file(const char* name) {
  Descriptor file(::memfd_create(name, MFD_CLOEXEC));
  if (!file.is_open()) throw failed("memfd_create");
  return above_the_handed(std::move(file));
}

/// meshbed-run, seen from this library: where it was built (build/lib) or installed (PREFIX/lib).
std::string program_of_runs() {
  Dl_info info{};
  std::string looked_at;
  if (::dladdr(reinterpret_cast<const void*>(&program_of_runs), &info) != 0 && info.dli_fname != nullptr) {
    std::error_code problem;
    const fs::path folder = fs::weakly_canonical(info.dli_fname, problem).parent_path();
    for (const fs::path& place : {folder / "meshbed/bin/meshbed-run", folder.parent_path() / "bin/meshbed-run"}) {
      if (::access(place.c_str(), X_OK) == 0) return place;
      looked_at += (looked_at.empty() ? "" : " and ") + place.string();
    }
  }
  throw RunError("meshbed-run, which runs scenarios, is missing: looked for " + looked_at +
                 "; ./meshbed install PREFIX installs it beside the library");
}

/// A page that the process of a run writes its progress to.
class ProgressPage {
 public:
  explicit ProgressPage(int descriptor) {
    if (::ftruncate(descriptor, sizeof(testbed::SharedProgress)) != 0) throw failed("ftruncate");
    void* const page =
        ::mmap(nullptr, sizeof(testbed::SharedProgress), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (page == MAP_FAILED) throw failed("mmap");
    shared_ = static_cast<testbed::SharedProgress*>(page);
  }
  ~ProgressPage() { ::munmap(shared_, sizeof(testbed::SharedProgress)); }
  ProgressPage(const ProgressPage&) = delete;
  ProgressPage& operator=(const ProgressPage&) = delete;
  RunProgress now() const { return {.done = shared_->done, .total = shared_->total}; }

 private:
  testbed::SharedProgress* shared_ = nullptr;
};

/// The process of a run; killed and waited for at the latest when this ends.
class RunProcess {
 public:
  explicit RunProcess(const std::string& request)
      : request_(memory_file("meshbed request")),
        reply_(memory_file("meshbed reply")),
        messages_(memory_file("meshbed messages")),
        progress_(memory_file("meshbed progress")),
        page_(progress_.number()) {
    if (::pwrite(request_.number(), request.data(), request.size(), 0) != static_cast<ssize_t>(request.size())) {
      throw failed("the request cannot be written");
    }
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw failed("pipe");
    Descriptor read_end(ends[0]), write_end(ends[1]);
    output_ = above_the_handed(std::move(read_end));
    start(above_the_handed(std::move(write_end)));
  }
  ~RunProcess() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    (void)wait();
  }
  RunProcess(const RunProcess&) = delete;
  RunProcess& operator=(const RunProcess&) = delete;

  /// Takes what it prints, for 100 ms at most. False: it has closed its output, which it does when it ends.
  bool look(std::string& output) {
    pollfd entry{.fd = output_.number(), .events = POLLIN, .revents = 0};
    if (::poll(&entry, 1, kLookMs) <= 0) return true;
    std::array<char, 65536> part{};
    const ssize_t count = ::read(output_.number(), part.data(), part.size());
    if (count < 0 && errno == EINTR) return true;
    if (count <= 0) return false;
    const std::size_t room = kOutputMost - std::min(kOutputMost, output.size());
    output.append(part.data(), std::min(room, static_cast<std::size_t>(count)));
    return true;
  }
  RunProgress progress() const { return page_.now(); }
  /// Its wait status; -1 where the program ignores SIGCHLD, so that nothing is left to wait for.
  int wait() {
    int status = -1;
    while (::waitpid(process_, &status, 0) < 0 && errno == EINTR) {
    }
    process_ = -1;
    return status;
  }
  std::string reply() const { return testbed::read_text_file(testbed::handed_file(reply_.number())); }
  int messages() const { return messages_.number(); }

 private:
  void start(const Descriptor& output) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawnattr_init(&attributes);
    ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    const std::pair<const Descriptor*, int> handed[] = {
        {&output, STDOUT_FILENO},
        {&output, STDERR_FILENO},
        {&request_, testbed::kRequestDescriptor},
        {&reply_, testbed::kReplyDescriptor},
        {&messages_, testbed::kMessagesDescriptor},
        {&progress_, testbed::kProgressDescriptor},
    };
    for (const auto& [from, to] : handed) ::posix_spawn_file_actions_adddup2(&actions, from->number(), to);
    // The program's handlers and mask are its own.
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setsigdefault(&attributes, &all);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    const std::string program = program_of_runs();
    std::array<char*, 2> words{const_cast<char*>(program.c_str()), nullptr};
    const int error = ::posix_spawn(&process_, program.c_str(), &actions, &attributes, words.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
    if (error == 0) return;
    process_ = -1;
    throw RunError(program + " cannot be started: " + std::strerror(error));
  }

  Descriptor request_, reply_, messages_, progress_, output_;
  ProgressPage page_;
  pid_t process_ = -1;
};

double number_of(const json& summary, const char* key) {
  const json& value = summary.at(key);
  return value.is_number() ? value.get<double>() : 0;
}

std::vector<Proof> proofs_of(const json& list) {
  std::vector<Proof> proofs;
  for (const json& each : list) {
    proofs.push_back({each.at("name").get<std::string>(), each.at("ok").get<bool>(), each.value("detail", "")});
  }
  return proofs;
}

RunResult result_of(const json& reply, int messages, std::string output) {
  constexpr double kNsPerSecond = 1e9;
  const json& summary = reply.at("summary");
  const bool has_messages = reply.contains("columns");
  auto state = has_messages ? std::make_shared<RunResult::State>(messages) : std::make_shared<RunResult::State>();
  state->passed = summary.at("passed").get<bool>();
  state->failure = reply.at("failure").get<std::string>();
  state->digest = summary.at("digest").get<std::string>();
  state->time_s = number_of(summary, "time_ns") / kNsPerSecond;
  state->algbw_GBps = number_of(summary, "algbw_GBps");
  state->busbw_GBps = number_of(summary, "busbw_GBps");
  state->bound_s = number_of(summary, "bound_ns") / kNsPerSecond;
  state->over_bound = number_of(summary, "over_bound");
  if (summary.at("wrong").is_number()) state->wrong = summary.at("wrong").get<std::uint64_t>();
  state->checked = summary.at("checked").get<std::uint64_t>();
  state->message_count = summary.at("messages").get<std::uint64_t>();
  state->proofs = proofs_of(summary.at("proofs"));
  state->expectations = proofs_of(summary.at("expected"));
  for (const json& each : summary.at("errors")) {
    state->errors.push_back({each.at("rank").get<int>(), each.at("text").get<std::string>()});
  }
  state->output = std::move(output);
  state->json = testbed::json_text(summary, testbed::kIndent);
  if (has_messages) {
    const auto count = reply.at("message_count").get<std::size_t>();
    for (const json& each : reply.at("columns")) {
      state->messages.push_back({.name = each.at("name").get<std::string>(),
                                 .type = each.at("type").get<std::string>(),
                                 .data = state->memory.data() + each.at("offset").get<std::size_t>(),
                                 .count = count});
    }
  }
  return RunResult(std::move(state));
}

/// Why a run that left no reply ended.
RunError cut_off(int status, const std::string& output) {
  std::string how = "ended";
  if (WIFSIGNALED(status))
    how = fmt::format("was ended by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  if (WIFEXITED(status)) how = fmt::format("ended with status {}", WEXITSTATUS(status));
  constexpr std::size_t kShown = 2000;
  const std::string last = output.substr(output.size() - std::min(kShown, output.size()));
  return RunError("the process of the run " + how + " before it had a result" +
                  (last.empty() ? "" : "; the last that it printed:\n" + last));
}

void refuse_errors(const testbed::Scenario& scenario) {
  const std::vector<testbed::Finding> findings = testbed::findings_of(scenario);
  try {
    testbed::refuse_errors(scenario, findings);
  } catch (const testbed::ScenarioError& error) {
    throw InvalidScenario(error.what(), testbed::public_findings(findings));
  }
}

}  // namespace

RunResult run(const Scenario& scenario, const RunOptions& options) {
  refuse_errors(scenario.state().parsed);
  const json request{{"text", scenario.state().text},
                     {"path", scenario.path()},
                     {"overrides", scenario.overrides()},
                     {"messages", options.messages},
                     {"parent", ::getpid()}};
  RunProcess process(testbed::json_text(request));
  const Deadline deadline = options.time_limit_s > 0
                                ? Deadline::after_ms(static_cast<std::int64_t>(options.time_limit_s * 1000))
                                : Deadline::never();
  std::string output;
  for (Deadline next_look = Deadline::after_ms(kLookMs); process.look(output);) {
    if (deadline.passed()) {
      throw RunCancelled(fmt::format("the run was ended at its time limit of {} s", options.time_limit_s));
    }
    if (!options.on_progress || !next_look.passed()) continue;
    if (!options.on_progress(process.progress())) throw RunCancelled("the run was ended by on_progress");
    next_look = Deadline::after_ms(kLookMs);
  }
  const int status = process.wait();
  const std::string text = process.reply();
  if (text.empty()) throw cut_off(status, output);
  const json reply = json::parse(text);
  if (reply.contains("error")) throw RunError(reply.at("error").get<std::string>());
  return result_of(reply, process.messages(), std::move(output));
}

}  // namespace meshbed
