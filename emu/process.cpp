#include "emu/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <system_error>

#include "plugin/base/descriptor.h"

namespace meshbed::emu {
namespace {

constexpr int kFirstDescriptor = 3;

std::string text_of(int problem) { return std::generic_category().message(problem); }

/// In the child, between fork and exec: only async-signal-safe calls. Returns errno where something fails.
int become(const SpawnOptions& options, char* const* argv, int null, pid_t parent, int report, int* moved) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) return ESRCH;  // it ended before the line above
  if (options.own_group) setpgid(0, 0);
  // First all out of the way of the numbers that they become, then each to its place.
  const int count = static_cast<int>(options.descriptors.size());
  const int wanted[3] = {options.input, options.output, options.errors};
  const int above = kFirstDescriptor + count + 1;
  const int report_moved = fcntl(report, F_DUPFD_CLOEXEC, above);
  if (report_moved < 0) return errno;
  for (int at = 0; at < 3 + count; ++at) {
    const int from = at < 3 ? wanted[at] : options.descriptors[static_cast<std::size_t>(at - 3)];
    moved[at] = fcntl(from < 0 ? null : from, F_DUPFD_CLOEXEC, above);
    if (moved[at] < 0) return errno;
  }
  for (int at = 0; at < 3 + count; ++at) {
    if (dup2(moved[at], at) < 0) return errno;
  }
  // What others in this process left open is not for the child: it would hold their pipes and sockets open.
  close_range(static_cast<unsigned>(kFirstDescriptor + count), ~0U, CLOSE_RANGE_CLOEXEC);
  if (!options.directory.empty() && chdir(options.directory.c_str()) != 0) return errno;
  // What the caller blocks or ignores is not the program's.
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  signal(SIGINT, SIG_DFL);
  execvp(argv[0], argv);
  const int problem = errno;
  if (write(report_moved, &problem, sizeof problem) < 0) return problem;
  return 0;  // reported
}

std::string contents_of(int descriptor) {
  std::string text;
  std::array<char, 65536> block{};
  for (off_t at = 0;;) {
    const ssize_t size = pread(descriptor, block.data(), block.size(), at);
    if (size <= 0) return text;
    text.append(block.data(), static_cast<std::size_t>(size));
    at += size;
  }
}

}  // namespace

pid_t spawn(const SpawnOptions& options) {
  const std::string& program = options.argv.at(0);
  const auto fail = [&](int problem) -> std::runtime_error {
    const char* const hint = problem == ENOENT ? "; it is not installed, or not in PATH" : "";
    return std::runtime_error(fmt::format("cannot start {}: {}{}", program, text_of(problem), hint));
  };
  std::vector<char*> argv;
  for (const std::string& word : options.argv) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  std::vector<int> moved(3 + options.descriptors.size());
  const Descriptor null(open("/dev/null", O_RDWR | O_CLOEXEC));
  int ends[2];
  if (!null.is_open() || pipe2(ends, O_CLOEXEC) != 0) throw fail(errno);
  Descriptor heard(ends[0]);
  Descriptor told(ends[1]);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) throw fail(errno);
  if (child == 0) {
    const int problem = become(options, argv.data(), null.number(), parent, told.number(), moved.data());
    if (problem != 0 && write(told.number(), &problem, sizeof problem) < 0) _exit(126);
    _exit(127);
  }
  told.close();
  int problem = 0;
  ssize_t size = 0;
  do {
    size = read(heard.number(), &problem, sizeof problem);
  } while (size < 0 && errno == EINTR);
  if (size != sizeof problem) return child;  // the pipe closed with exec
  wait_for_exit(child);
  throw fail(problem);
}

int wait_for_exit(pid_t process, rusage* usage) {
  int status = 0;
  while (wait4(process, &status, 0, usage) < 0) {
    if (errno != EINTR) return -1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

ProgramResult run_program(SpawnOptions options) {
  const Descriptor output(memfd_create("output", MFD_CLOEXEC));
  const Descriptor errors(memfd_create("errors", MFD_CLOEXEC));
  if (options.output < 0) options.output = output.number();
  if (options.errors < 0) options.errors = errors.number();
  ProgramResult result;
  rusage usage{};
  result.status = wait_for_exit(spawn(options), &usage);
  const auto seconds = [](const timeval& time) {
    constexpr double kPerSecond = 1e6;
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / kPerSecond;
  };
  constexpr std::uint64_t kKibibyte = 1024;
  result.cpu_s = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  result.resident_bytes = static_cast<std::uint64_t>(usage.ru_maxrss) * kKibibyte;
  result.output = contents_of(output.number());
  result.errors = contents_of(errors.number());
  return result;
}

ProgramResult run_program(const std::vector<std::string>& argv, const std::string& directory, int output) {
  SpawnOptions options{.argv = argv, .directory = directory, .descriptors = {}};
  options.output = output;
  return run_program(std::move(options));
}

std::string last_line(const std::string& text) {
  const auto end = text.find_last_not_of(" \t\r\n");
  if (end == std::string::npos) return "";
  const auto start = text.find_last_of('\n', end);
  return text.substr(start == std::string::npos ? 0 : start + 1,
                     end - (start == std::string::npos ? 0 : start + 1) + 1);
}

}  // namespace meshbed::emu
