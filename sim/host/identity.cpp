// A rank's identity: process and thread numbers, host name, environment.
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "sim/host/host_state.h"
#include "sim/host/load/redirection.h"

namespace meshbed::sim {
namespace {

// Process numbers stand 1000 apart, so that thread numbers fit between them.
constexpr pid_t kFirstProcessId = 10'000;
constexpr pid_t kProcessIdStep = 1'000;

const std::string& node_name() {
  const auto& nodes = World::get().cluster().nodes;
  return nodes[static_cast<std::size_t>(World::current_process()->node)].name;
}

pid_t id_of(const Process& process) { return kFirstProcessId + kProcessIdStep * process.index; }

pid_t get_pid() { return outside() ? ::getpid() : id_of(*World::current_process()); }

pid_t get_parent_pid() { return outside() ? ::getppid() : 1; }

/// The first thread of a process has the process's number, as on Linux.
pid_t get_tid() { return outside() ? ::gettid() : get_pid() + static_cast<pid_t>(current_record().id) - 1; }

int get_host_name(char* name, std::size_t size) {
  if (outside()) return ::gethostname(name, size);
  const std::string& node = node_name();
  if (node.size() >= size) return fail(ENAMETOOLONG);
  std::memcpy(name, node.c_str(), node.size() + 1);
  return 0;
}

int get_host_name_checked(char* name, std::size_t size, std::size_t) { return get_host_name(name, size); }

int get_system_name(utsname* result) {
  if (outside()) return ::uname(result);
  *result = {};
  std::snprintf(result->sysname, sizeof(result->sysname), "Linux");
  std::snprintf(result->nodename, sizeof(result->nodename), "%s", node_name().c_str());
  std::snprintf(result->release, sizeof(result->release), "6.1.0-meshbed");
  std::snprintf(result->version, sizeof(result->version), "#1 simulated");
  std::snprintf(result->machine, sizeof(result->machine), "x86_64");
  return 0;
}

/// Only the process's own variables: a run does not depend on the environment of its user.
char* get_variable(const char* name) {
  if (outside()) return ::getenv(name);
  ProcessState& state = current_state();
  const auto& environment = state.process.environment;
  const auto found = environment.find(name);
  if (found == environment.end()) return nullptr;
  return const_cast<char*>(state.strings.insert(found->second).first->c_str());
}

int set_variable(const char* name, const char* value, int overwrite) {
  if (outside()) return ::setenv(name, value, overwrite);
  if (name == nullptr || *name == 0 || std::strchr(name, '=') != nullptr) return fail(EINVAL);
  if (overwrite != 0 || get_variable(name) == nullptr) World::current_process()->environment[name] = value;
  current_state().refresh_environ();
  return 0;
}

int unset_variable(const char* name) {
  if (outside()) return ::unsetenv(name);
  if (name == nullptr || *name == 0 || std::strchr(name, '=') != nullptr) return fail(EINVAL);
  World::current_process()->environment.erase(name);
  current_state().refresh_environ();
  return 0;
}

}  // namespace

std::uint32_t process_id_of(const Process& process) { return static_cast<std::uint32_t>(id_of(process)); }

std::uint32_t current_thread_id() { return static_cast<std::uint32_t>(get_tid()); }

std::span<const Redirection> identity_redirections() {
  static const std::array table{
      redirect("getpid", &get_pid),
      redirect("getppid", &get_parent_pid),
      redirect("gettid", &get_tid),
      redirect("gethostname", &get_host_name),
      redirect("__gethostname_chk", &get_host_name_checked),
      redirect("uname", &get_system_name),
      redirect("getenv", &get_variable),
      redirect("secure_getenv", &get_variable),
      redirect("setenv", &set_variable),
      redirect("unsetenv", &unset_variable),
  };
  return table;
}

}  // namespace meshbed::sim
