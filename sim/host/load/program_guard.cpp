#include "sim/host/load/program_guard.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "plugin/base/check.h"
#include "sim/engine/fiber.h"
#include "sim/host/host_state.h"
#include "sim/host/load/stack_trace.h"

namespace meshbed::sim {

namespace {

constexpr std::array kFaults{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
constexpr int kTick = SIGALRM;     // programs cannot have it: their timers are refused
constexpr int kBusyTicks = 10;     // of a tenth of the limit each; those of a process that stands still count as one
constexpr double kPatienceS = 30;  // at least, with a simulator that stands still after a program was stopped
constexpr std::size_t kSignalStackBytes = 256 * 1024;
constexpr std::size_t kInnerFrames = 24, kOuterFrames = 32;  // kept of a long stack; the outermost are ours

}  // namespace

// Named, for they are members of ProgramGuard::State.
namespace guard {

/// Addresses of the calls under way. Filled in a signal handler.
struct Frames {
  std::array<const void*, kInnerFrames> inner{};
  std::array<const void*, kOuterFrames> outer{};  // a ring
  std::size_t count = 0;
  bool after_signal = false;

  void add(const void* address) {
    if (count < kInnerFrames) {
      inner[count] = address;
    } else {
      outer[count % kOuterFrames] = address;
    }
    ++count;
  }
};

struct FatalSignal {
  int signal = 0;  // kTick: the busy limit
  int code = 0;    // si_code
  std::uintptr_t address = 0;
  std::uintptr_t instruction = 0;
  Frames frames{};
};

class SignalStack {
 public:
  SignalStack() {
    memory_ = ::mmap(nullptr, kSignalStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap of a signal stack");
    stack_t stack{};
    stack.ss_sp = memory_;
    stack.ss_size = kSignalStackBytes;
    ::sigaltstack(&stack, &before_);
  }
  ~SignalStack() {
    ::sigaltstack(&before_, nullptr);
    ::munmap(memory_, kSignalStackBytes);
  }
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

  bool is_in_use() const {
    stack_t now{};
    ::sigaltstack(nullptr, &now);
    return now.ss_sp == memory_;
  }

 private:
  void* memory_ = nullptr;
  stack_t before_{};
};

/// The way out of a program's code, on the stack of the thread that runs it.
struct Escape {
  sigjmp_buf out{};
  sigjmp_buf past_unwinding{};
  const pthread_t os_thread = ::pthread_self();
  const Thread* const thread = World::current();
  volatile sig_atomic_t unwinding = 0;
  std::string said{};
  FatalSignal stop{};
};

}  // namespace guard

namespace {

using guard::Escape, guard::FatalSignal, guard::Frames, guard::SignalStack;

std::string name_of_signal(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

const char* meaning_of(const FatalSignal& stop) {
  switch (stop.signal) {
    case SIGSEGV:
      return stop.code == SEGV_MAPERR   ? "nothing is mapped there"
             : stop.code == SEGV_ACCERR ? "access is not permitted there"
                                        : "";
    case SIGBUS:
      return stop.code == BUS_ADRERR ? "past the end of a mapped file" : stop.code == BUS_ADRALN ? "misaligned" : "";
    case SIGFPE:
      return stop.code == FPE_INTDIV ? "integer division by zero" : "";
    case SIGILL:
      return "illegal instruction";
    default:
      return "";
  }
}

/// Of data: with SIGFPE and SIGILL the address is the instruction's, which the first call shows.
bool names_an_address(const FatalSignal& stop) {
  return stop.code > 0 && (stop.signal == SIGSEGV || stop.signal == SIGBUS);
}

}  // namespace

class ProgramGuard::State {
 public:
  explicit State(Options options) : options_(std::move(options)) {
    MESHBED_CHECK_MSG(of_process == nullptr || of_process->is_over_, "one ProgramGuard at a time");
    of_process = this;
    for (std::size_t at = 0; at < kFaults.size(); ++at) install(kFaults[at], &on_fault, &before_[at]);
    install(kTick, &on_tick, &tick_before_);
    if (options_.busy_limit_s > 0) start_timer();
  }

  ~State() {
    for (std::size_t at = 0; at < kFaults.size(); ++at) ::sigaction(kFaults[at], &before_[at], nullptr);
    ::sigaction(kTick, &tick_before_, nullptr);
    of_process = nullptr;
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  /// The World ends. False: this must stay, for what is left of the command may fail of damaged memory.
  bool end() {
    if (has_timer_) ::timer_delete(timer_);
    has_timer_ = false;
    is_over_ = true;
    return !has_stopped_;
  }

  /// While it lives, `escape` is its thread's way out.
  class Entry {
   public:
    Entry(State& state, Escape& escape) : state_(state), at_(static_cast<std::size_t>(escape.thread->id())) {
      if (state_.escapes_.size() <= at_) state_.escapes_.resize(at_ + 1);
      state_.escapes_[at_] = &escape;
    }
    ~Entry() { leave(); }
    void leave() const { state_.escapes_[at_] = nullptr; }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

   private:
    State& state_;
    std::size_t at_;
  };
  bool has_stack_here() const { return stack_.is_in_use(); }
  Escape* running() const {
    const Thread* const thread = is_over_ ? nullptr : World::current();
    const auto at = thread != nullptr ? static_cast<std::size_t>(thread->id()) : escapes_.size();
    return at < escapes_.size() ? escapes_[at] : nullptr;
  }

  /// Why the thread was stopped, once it has left its program.
  ProgramStop describe(const Escape& escape);
  void report_end(const ProgramStop& stop) const { options_.on_end(*World::current_process(), stop); }

  static inline State* of_process = nullptr;  // signal handlers have no argument of ours

 private:
  static void install(int signal, void (*handler)(int, siginfo_t*, void*), struct sigaction* before) {
    struct sigaction action {};
    action.sa_sigaction = handler;
    // SA_NODEFER: a stack that cannot be unwound may fault once more in the handler.
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART | (signal == kTick ? 0 : SA_NODEFER);
    ::sigaction(signal, &action, before);
  }

  void start_timer() {
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = kTick;
    event._sigev_un._tid = ::gettid();
    if (::timer_create(CLOCK_MONOTONIC, &event, &timer_) != 0) {
      throw std::system_error(errno, std::generic_category(), "timer_create for the busy limit of programs");
    }
    has_timer_ = true;
    const auto tick_ns = std::max<std::int64_t>(std::llround(options_.busy_limit_s * 1e9 / kBusyTicks), 1'000'000);
    patience_ticks_ = static_cast<int>(std::max(1.0 * kBusyTicks, kPatienceS * 1e9 / static_cast<double>(tick_ns)));
    itimerspec times{};
    times.it_interval = {.tv_sec = tick_ns / 1'000'000'000, .tv_nsec = tick_ns % 1'000'000'000};
    times.it_value = times.it_interval;
    ::timer_settime(timer_, 0, &times, nullptr);
  }

  static void on_fault(int signal, siginfo_t* info, void* context);
  static void on_tick(int signal, siginfo_t* info, void* context);
  [[noreturn]] void stop(Escape& escape, int signal, const siginfo_t* info, ucontext_t& context);
  /// For give_up(). Allocates nothing.
  void keep_last_words(const Escape& escape, std::string_view why);
  /// Nothing can be concluded any more. Safe in a signal handler; returns where no program is at fault.
  void give_up() const;

  const Options options_;
  const SignalStack stack_;
  std::array<struct sigaction, kFaults.size()> before_{};
  struct sigaction tick_before_ {};
  timer_t timer_{};
  bool has_timer_ = false;
  std::vector<Escape*> escapes_;  // by the number of the World's thread; null: it runs none of a program's code
  std::uint64_t turns_seen_ = 0;
  int ticks_ = 0, patience_ticks_ = 0;
  bool has_stopped_ = false;
  bool is_over_ = false;
  std::array<char, 4096> last_words_{};
  std::size_t last_words_size_ = 0;
};

namespace {

/// Keeps the frames below a signal handler.
_Unwind_Reason_Code take_frame(_Unwind_Context* context, void* self) {
  auto& frames = *static_cast<Frames*>(self);
  int is_exact = 0;
  const auto address = _Unwind_GetIPInfo(context, &is_exact);
  if (is_exact != 0) frames.after_signal = true;
  if (frames.after_signal && address != 0) frames.add(reinterpret_cast<const void*>(address));
  return _URC_NO_REASON;
}

/// The loaded file that has this code; null: it is none.
const link_map* file_of(const void* code) {
  dl_find_object found{};
  return ::_dl_find_object(const_cast<void*>(code), &found) == 0 ? found.dlfo_link_map : nullptr;
}

bool is_code(std::uintptr_t address) { return file_of(reinterpret_cast<const void*>(address)) != nullptr; }

bool is_in_simulator(const void* code) { return file_of(code) == file_of(reinterpret_cast<const void*>(&file_of)); }

/// How far a thread's stack may reach down from where it entered its program.
std::uintptr_t stack_end(const Escape& escape) {
  return reinterpret_cast<std::uintptr_t>(&escape) - World::get().options().stack_bytes;
}

/// Where a call of an address that is no code has pushed the caller, the caller is what is unwound.
void undo_wild_call(const Escape& escape, ucontext_t& context) {
  auto& registers = context.uc_mcontext.gregs;
  const auto top = static_cast<std::uintptr_t>(registers[REG_RSP]);
  if (is_code(static_cast<std::uintptr_t>(registers[REG_RIP]))) return;
  if (top < stack_end(escape) || top >= reinterpret_cast<std::uintptr_t>(&escape)) return;
  std::uintptr_t caller = 0;
  std::memcpy(&caller, reinterpret_cast<const void*>(top), sizeof caller);
  if (!is_code(caller)) return;
  registers[REG_RIP] = static_cast<greg_t>(caller);
  registers[REG_RSP] += static_cast<greg_t>(sizeof caller);
}

}  // namespace

void ProgramGuard::State::keep_last_words(const Escape& escape, std::string_view why) {
  last_words_size_ = fmt::format_to_n(last_words_.data(), last_words_.size(),
                                      "meshbed: no summary is written: rank {} has damaged memory that the simulator "
                                      "shares: {}\n",
                                      escape.thread->process().rank, why)
                         .size;
  last_words_size_ = std::min(last_words_size_, last_words_.size());
}

void ProgramGuard::State::give_up() const {
  if (!has_stopped_) return;
  static_cast<void>(::write(STDERR_FILENO, last_words_.data(), last_words_size_));
  ::_exit(options_.fatal_status);
}

void ProgramGuard::State::stop(Escape& escape, int signal, const siginfo_t* info, ucontext_t& context) {
  escape.stop = {.signal = signal,
                 .code = info->si_code,
                 .address = reinterpret_cast<std::uintptr_t>(info->si_addr),
                 .instruction = static_cast<std::uintptr_t>(context.uc_mcontext.gregs[REG_RIP])};
  keep_last_words(escape, signal == kTick ? "busy without end" : ::sigdescr_np(signal));
  has_stopped_ = true;
  ticks_ = 0;
  if (sigsetjmp(escape.past_unwinding, 0) == 0) {
    escape.unwinding = 1;
    undo_wild_call(escape, context);
    _Unwind_Backtrace(&take_frame, &escape.stop.frames);
  }
  escape.unwinding = 0;
  ::siglongjmp(escape.out, 1);
}

void ProgramGuard::State::on_fault(int signal, siginfo_t* info, void* context) {
  State& state = *of_process;
  if (Escape* const escape = state.running()) {
    if (escape->unwinding != 0) ::siglongjmp(escape->past_unwinding, 1);
    state.stop(*escape, signal, info, *static_cast<ucontext_t*>(context));
  }
  state.give_up();
  // The simulator's own: as without a guard.
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

void ProgramGuard::State::on_tick(int signal, siginfo_t* info, void* context) {
  State& state = *of_process;
  if (state.is_over_) return;
  const Thread* const running = World::current();
  const bool is_forwarded = info->si_code == SI_TKILL;
  if (!is_forwarded) {
    const bool waits = running == nullptr && !state.has_stopped_;
    if (waits || std::exchange(state.turns_seen_, World::turns()) != state.turns_seen_) {
      state.ticks_ = 0;
      return;
    }
    if (++state.ticks_ < kBusyTicks) return;
  }
  Escape* const escape = state.running();
  if (escape == nullptr) {
    if (state.ticks_ >= state.patience_ticks_) state.give_up();
    return;
  }
  if (::pthread_equal(escape->os_thread, ::pthread_self()) == 0) {  // SimGrid's threads
    ::pthread_kill(escape->os_thread, kTick);
    return;
  }
  auto& interrupted = *static_cast<ucontext_t*>(context);
  // In a library or the simulator it may hold a lock or have half changed something: it is given as long once more.
  const auto* const at = reinterpret_cast<const void*>(interrupted.uc_mcontext.gregs[REG_RIP]);
  const bool is_own = is_in_copy(state_of(escape->thread->process()), at);
  if (!is_own && state.ticks_ < 2 * kBusyTicks) return;
  state.stop(*escape, signal, info, interrupted);
}

ProgramStop ProgramGuard::State::describe(const Escape& escape) {
  const FatalSignal& stop = escape.stop;
  const ProcessState& process = state_of(escape.thread->process());
  const std::size_t inner_count = std::min(stop.frames.count, kInnerFrames);
  const std::size_t outer_count = std::min(stop.frames.count - inner_count, kOuterFrames);
  std::vector<const void*> addresses(stop.frames.inner.begin(),
                                     stop.frames.inner.begin() + static_cast<std::ptrdiff_t>(inner_count));
  for (std::size_t at = stop.frames.count - outer_count; at < stop.frames.count; ++at) {
    addresses.push_back(stop.frames.outer[at % kOuterFrames]);
  }
  bool is_exact = true;
  if (addresses.empty()) addresses.push_back(reinterpret_cast<const void*>(stop.instruction));
  if (stop.signal == SIGABRT) {  // frames of abort() and raise() show nothing, unless the simulator called them
    const auto own = std::find_if(addresses.begin(), addresses.end(),
                                  [&](const void* address) { return is_in_copy(process, address); });
    const bool is_simulators = escape.said.empty() && std::any_of(addresses.begin(), own, is_in_simulator);
    if (own != addresses.end() && own != addresses.begin() && !is_simulators) {
      addresses.erase(addresses.begin(), own);
      is_exact = false;
    }
  }
  const bool is_wild = !is_code(stop.instruction);
  const std::vector<std::string> frames = frame_texts(process, addresses, is_exact && !is_wild);

  std::string text;
  const std::uintptr_t end = stack_end(escape), stack_bytes = World::get().options().stack_bytes;
  if (!escape.said.empty()) {
    text = escape.said;
  } else if (stop.signal == kTick) {
    text = fmt::format(
        "its program has run for {:g} s of wall-clock time without a call that waits (workload.busy_limit_s; a loop on "
        "memory that another thread or a GPU writes has to call sched_yield())",
        options_.busy_limit_s);
  } else if (stop.code == SEGV_ACCERR && stop.signal == SIGSEGV && stop.address > end - guard_bytes(stack_bytes) &&
             stop.address < end + stack_bytes / 16) {
    text = fmt::format("SIGSEGV at address {:#x} (stack overflow, past {} MiB)", stop.address, stack_bytes >> 20U);
  } else {
    text = name_of_signal(stop.signal);
    if (names_an_address(stop)) text += fmt::format(" at address {:#x}", stop.address);
    if (is_wild) {
      text += " (a call of an address that is no code)";
    } else if (const char* const meaning = meaning_of(stop); *meaning != '\0') {
      text += fmt::format(" ({})", meaning);
    }
  }
  if (!frames.empty()) text += " in " + frames.front();
  if (escape.thread->name() != escape.thread->process().name + ".main") {
    text += ", thread " + escape.thread->name();
  }
  const std::size_t left_out = stop.frames.count - inner_count - outer_count;
  for (std::size_t at = 0, same = 0; at < frames.size(); at += same) {
    const std::size_t part_end =
        at < inner_count && left_out > 0 ? std::min(inner_count, frames.size()) : frames.size();
    same = 1;
    while (at + same < part_end && frames[at + same] == frames[at]) ++same;
    if (at == inner_count && left_out > 0) text += fmt::format("\n    ... {} calls", left_out);
    text += fmt::format("\n    {}", frames[at]);
    if (same > 1) text += fmt::format(", {} times", same);
  }
  keep_last_words(escape, text);
  const std::string kind = stop.signal == kTick ? "busy" : name_of_signal(stop.signal);
  return {.kind = escape.said.empty() ? kind : escape.said, .text = text};
}

ProgramGuard::ProgramGuard(Options options) : state_(new State(std::move(options))) {}

ProgramGuard::~ProgramGuard() {
  if (state_->end()) delete state_;
}

std::optional<ProgramStop> run_guarded(const std::function<void()>& body) {
  ProgramGuard::State* const guard = ProgramGuard::State::of_process;
  if (guard == nullptr || World::current() == nullptr) {
    body();
    return std::nullopt;
  }
  std::optional<SignalStack> stack;
  if (!guard->has_stack_here()) stack.emplace();  // a thread of the operating system's own, under SimGrid
  Escape escape;
  const ProgramGuard::State::Entry entry(*guard, escape);
  if (sigsetjmp(escape.out, 1) == 0) {
    body();
    return std::nullopt;
  }
  entry.leave();  // a fault from here on is the simulator's
  return guard->describe(escape);
}

void stop_guarded(const std::string& why) {
  ProgramGuard::State* const guard = ProgramGuard::State::of_process;
  Escape* const escape = guard != nullptr ? guard->running() : nullptr;
  if (escape == nullptr) return;
  escape->said = why;
  ::raise(SIGABRT);
}

void end_with_program(const ProgramStop& stop) {
  ProgramGuard::State::of_process->report_end(stop);
  for (;;) World::get().block({.what = "nothing: it was stopped"});
}

}  // namespace meshbed::sim
