#include "sim/host/load/program.h"

#include <cxxabi.h>
#include <fmt/format.h>
#include <link.h>
#include <setjmp.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <utility>

#include "plugin/base/log.h"
#include "sim/host/host_state.h"
#include "sim/host/load/calls.h"
#include "sim/host/load/elf_image.h"
#include "sim/host/load/loader.h"
#include "sim/host/load/program_guard.h"
#include "sim/host/load/redirection.h"
#include "sim/host/load/stack_trace.h"

namespace meshbed::sim {
namespace {

using Main = int (*)(int, char**, char**);

}  // namespace

/// Its constructors before main(), and its destructors, which exit(3) runs, behind it.
class ProgramRun {
 public:
  ProgramRun(const Program& program, char** arguments, char** environment)
      : image_(program.handle), parts_(program.parts), arguments_(arguments), environment_(environment) {}

  int main(Main function, int count) {
    // As in a process of its own, exit() leaves the objects of the functions below it as they are: it is no exception,
    // and may be called where none may pass.
    if (::_setjmp(out_) != 0) return status_;
    if (parts_.init != 0) reinterpret_cast<void (*)()>(image_.at(parts_.init))();
    for (std::size_t at = 0; at < parts_.init_count; ++at) {
      reinterpret_cast<Main>(function_at(parts_.init_array, at))(count, arguments_, environment_);
    }
    exit(function(count, arguments_, environment_));
  }

  [[noreturn]] void exit(int status) {
    run_thread_exit_calls(current_record());
    while (!exit_calls_.empty()) {
      const ExitCall call = exit_calls_.back();
      exit_calls_.pop_back();
      call.function(call.argument);
    }
    while (parts_.fini_count > 0) {
      reinterpret_cast<void (*)()>(function_at(parts_.fini_array, --parts_.fini_count))();
    }
    if (const std::uintptr_t fini = std::exchange(parts_.fini, 0)) reinterpret_cast<void (*)()>(image_.at(fini))();
    *current_state().has_exited = true;
    leave(status);
  }

  /// What at_quick_exit(3) has registered, and no destructor.
  [[noreturn]] void exit_quickly(int status) {
    while (!quick_exit_calls_.empty()) {
      const auto call = quick_exit_calls_.back();
      quick_exit_calls_.pop_back();
      call();
    }
    leave(status);
  }

  [[noreturn]] void leave(int status) {
    status_ = status & 0xff;
    ::longjmp(out_, 1);
  }

  bool is_mains_thread() const { return World::current() == thread_; }
  void add_exit_call(void (*function)(void*), void* argument) { exit_calls_.push_back({function, argument}); }
  void add_quick_exit_call(void (*function)()) { quick_exit_calls_.push_back(function); }

 private:
  struct ExitCall {
    void (*function)(void*);
    void* argument;
  };

  void* function_at(std::uintptr_t array, std::size_t index) const {
    void* function = nullptr;
    std::memcpy(&function, image_.at(array) + index * sizeof function, sizeof function);
    return function;
  }

  ElfImage image_;
  ProgramParts parts_;  // that are still to be run
  char** const arguments_;
  char** const environment_;
  const Thread* const thread_ = World::current();
  std::vector<ExitCall> exit_calls_;          // the last one is done first
  std::vector<void (*)()> quick_exit_calls_;  // likewise
  jmp_buf out_{};
  int status_ = 0;
};

namespace {

constexpr int kAborted = 134;  // 128 + SIGABRT

/// A position-independent program does not export main(), but its first instructions hand it on: lea main(%rip), %rdi,
/// or mov with its slot, before the call of __libc_start_main. nullptr: they are other ones.
void* main_by_start(void* handle) {
  constexpr std::size_t kStartBytes = 64;
  constexpr std::array<std::uint8_t, 3> kLea{0x48, 0x8d, 0x3d}, kMov{0x48, 0x8b, 0x3d};
  const ElfImage image(handle);
  const auto entry = reinterpret_cast<const ElfW(Ehdr)*>(image.at(0))->e_entry;
  const std::byte* start = image.at(entry);
  if (entry == 0 || !image.holds(start + kStartBytes)) return nullptr;
  for (const std::byte* at = start; at < start + kStartBytes - 7; ++at) {
    const bool is_address = std::memcmp(at, kLea.data(), kLea.size()) == 0;
    if (!is_address && std::memcmp(at, kMov.data(), kMov.size()) != 0) continue;
    std::int32_t distance = 0;
    std::memcpy(&distance, at + 3, sizeof distance);
    const std::byte* place = at + 7 + distance;
    if (!image.holds(place)) return nullptr;
    void* found = const_cast<std::byte*>(place);
    if (!is_address) std::memcpy(&found, place, sizeof found);
    return image.holds(found) ? found : nullptr;
  }
  return nullptr;
}

Main main_of(void* handle, const std::string& path) {
  void* found = symbol_of(handle, "main");
  if (found == nullptr || !ElfImage(handle).holds(found)) found = main_by_start(handle);
  if (found == nullptr) {
    throw std::runtime_error(path + ": no main() is found in it: link it as a program, with -pie, or with -shared");
  }
  return reinterpret_cast<Main>(found);
}

/// Those that are no program's, as a plugin that is tried in a process of its own, end the process.
bool ends_the_process() { return outside() || current_state().program == nullptr; }

/// The program whose thread calls `name`. Other threads cannot end it: they end themselves, with a log line.
ProgramRun& run_to_end(const char* name) {
  ProcessState& state = current_state();
  if (state.program->is_mains_thread()) return *state.program;
  MESHBED_WARN("%s: %s() outside of main()'s thread ends that thread alone in the simulation",
               state.process.name.c_str(), name);
  reinterpret_cast<void (*)(void*)>(redirection_of("pthread_exit"))(nullptr);
  std::abort();
}

[[noreturn]] void exit_program(int status) {
  if (ends_the_process()) std::exit(status);
  run_to_end("exit").exit(status);
}
[[noreturn]] void exit_at_once(int status) {
  if (ends_the_process()) ::_exit(status);
  run_to_end("_exit").leave(status);
}
[[noreturn]] void exit_quickly(int status) {
  if (ends_the_process()) std::quick_exit(status);
  run_to_end("quick_exit").exit_quickly(status);
}
[[noreturn]] void abort_program() {
  if (ends_the_process()) std::abort();
  stop_guarded("its program called abort()");
  MESHBED_WARN("%s: its program called abort()", World::current_process()->name.c_str());
  run_to_end("abort").leave(kAborted);
}
[[noreturn]] void fail_assertion(const char* text, const char* file, unsigned line, const char* function) {
  const bool is_simulated = !outside();
  if (is_simulated && current_state().program != nullptr) stop_guarded(fmt::format("Assertion `{}' failed", text));
  MESHBED_WARN("%s: %s:%u: %s: Assertion `%s' failed.",
               is_simulated ? World::current_process()->name.c_str() : "outside of the simulation", file, line,
               function != nullptr ? function : "?", text);
  abort_program();
}

/// "PROGRAM: TEXT" or "PROGRAM: TEXT: ERROR" on standard error, as err(3) and error(3) print it.
void print_error(const char* format, std::va_list values, const char* error) {
  const bool is_program = !outside() && !current_state().command.empty();
  std::string name = is_program ? current_state().command.front() : std::string(program_invocation_short_name);
  name.erase(0, name.rfind('/') + 1);
  std::fprintf(stderr, "%s: ", name.c_str());
  if (format != nullptr) std::vfprintf(stderr, format, values);
  if (error != nullptr) std::fprintf(stderr, "%s%s", format != nullptr ? ": " : "", error);
  std::fprintf(stderr, "\n");
}
[[noreturn]] void end_with_error_list(int status, const char* format, std::va_list values) {
  print_error(format, values, std::strerror(errno));
  exit_program(status);
}
[[noreturn]] void end_with_text_list(int status, const char* format, std::va_list values) {
  print_error(format, values, nullptr);
  exit_program(status);
}
[[noreturn]] void end_with_error(int status, const char* format, ...) {
  std::va_list values;
  va_start(values, format);
  end_with_error_list(status, format, values);
}
[[noreturn]] void end_with_text(int status, const char* format, ...) {
  std::va_list values;
  va_start(values, format);
  end_with_text_list(status, format, values);
}
void report_error(int status, int number, const char* format, ...) {
  std::va_list values;
  va_start(values, format);
  print_error(format, values, number != 0 ? std::strerror(number) : nullptr);
  va_end(values);
  if (status != 0) exit_program(status);
}

/// __cxa_atexit (Itanium C++ ABI 3.3.6.3), to which atexit() comes, too: of the program and of the libraries that it
/// uses, as in a process of its own. What a library's constructors ask for at load time is the simulator's end's, and
/// done where the program has ended by exit(): one that was killed, or has called _exit() or abort(), does no such
/// call.
int add_exit_call(void (*function)(void*), void* argument, void* object) {
  if (outside()) return abi::__cxa_atexit(function, argument, object);
  ProcessState& state = current_state();
  if (state.program != nullptr && is_in_copy(state, object)) {
    state.program->add_exit_call(function, argument);
    return 0;
  }
  if (state.command.empty()) return abi::__cxa_atexit(function, argument, object);
  struct AtEnd {
    void (*function)(void*);
    void* argument;
    std::shared_ptr<const bool> has_exited;
  };
  auto call = std::make_unique<AtEnd>(AtEnd{function, argument, state.has_exited});
  const auto run = [](void* self) {
    const std::unique_ptr<AtEnd> at_end(static_cast<AtEnd*>(self));
    if (*at_end->has_exited) at_end->function(at_end->argument);
  };
  const int result = abi::__cxa_atexit(run, call.get(), object);
  if (result == 0) static_cast<void>(call.release());
  return result;
}

/// To which glibc's at_quick_exit() comes; `object`: whose call it is.
int add_quick_exit_call(void (*function)(), void* object) {
  if (outside() || current_state().program == nullptr) return std::at_quick_exit(function);
  if (!is_in_copy(current_state(), object)) return std::at_quick_exit(function);
  current_state().program->add_quick_exit_call(function);
  return 0;
}

}  // namespace

int run_program(const std::string& path, const std::vector<std::string>& arguments) {
  ProcessState& state = current_state();
  note_descriptors_of_command();
  std::vector<std::string> words{path};
  words.insert(words.end(), arguments.begin(), arguments.end());
  state.command = words;
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const Program program = load_program(state, path);
  const Main function = main_of(program.handle, path);
  // Kept: what threads of it do behind its end is still a program's.
  state.program = std::make_shared<ProgramRun>(program, pointers.data(), state.environ_block);
  int status = 0;
  const auto stopped = run_guarded([&] { status = state.program->main(function, static_cast<int>(words.size())); });
  if (stopped) throw ProgramStopped(*stopped);
  return status;
}

std::span<const Redirection> program_redirections() {
  static const std::array table{
      redirect("__cxa_atexit", &add_exit_call),
      redirect("exit", &exit_program),
      redirect("_exit", &exit_at_once),
      redirect("_Exit", &exit_at_once),
      redirect("quick_exit", &exit_quickly),
      redirect("abort", &abort_program),
      redirect("__cxa_at_quick_exit", &add_quick_exit_call),
      redirect("__assert_fail", &fail_assertion),
      redirect("err", &end_with_error),
      redirect("errx", &end_with_text),
      redirect("verr", &end_with_error_list),
      redirect("verrx", &end_with_text_list),
      redirect("error", &report_error),
  };
  return table;
}

}  // namespace meshbed::sim
