#pragma once
// What the host services keep: for a simulated process (descriptors, threads, names), and for the World (options,
// counters, the TCP and UDP stacks, the sysfs trees).

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "plugin/base/prng.h"
#include "sim/host/device_memory.h"
#include "sim/host/file/file.h"
#include "sim/host/host.h"
#include "sim/host/load/static_tls.h"
#include "sim/host/socket/tcp_stack.h"
#include "sim/host/socket/udp_stack.h"
#include "sim/host/thread/wait_queue.h"

namespace meshbed::sim {

class SysfsTree;

using TlsBlock = std::unique_ptr<std::byte, void (*)(void*)>;

/// A thread as pthreads sees it; also made for the threads that World::spawn started, when they first ask.
struct ThreadRecord {
  unsigned long id = 0;  // the pthread_t: 1, 2, ... within the process, never used again
  std::string name;
  void* result = nullptr;
  bool ended = false;
  bool detached = false;
  WaitQueue joiners{};
  std::vector<void*> specific;                                // by pthread_key_t
  std::map<unsigned long, TlsBlock> tls_blocks;               // by the dynamic linker's module number
  std::vector<std::pair<void (*)(void*), void*>> exit_calls;  // destructors of thread_local objects
  std::string dl_error;                                       // what dlerror() will say; empty: nothing
  std::string dl_error_told;                                  // keeps the text of the last dlerror() alive
  std::vector<bool> processors;                               // sched_setaffinity(): empty: all of them
  // A loop that does nothing but read the clock must not stop time: see clocks.cpp.
  Picoseconds last_clock_read_ps = -1;
  int clock_reads = 0;
};

struct ThreadKey {
  bool used = false;
  void (*destructor)(void*) = nullptr;
};

class Getopt;
class ProgramRun;

struct ProcessState {
  explicit ProcessState(Process& owner);
  /// Rebuilds `environ_block` from the process's environment.
  void refresh_environ();

  Process& process;
  DescriptorTable descriptors;
  Prng random;

  std::unordered_map<unsigned long, std::unique_ptr<ThreadRecord>> threads;
  std::unordered_map<const Thread*, ThreadRecord*> record_of_thread;
  unsigned long next_thread_id = 1;
  std::vector<ThreadKey> keys;
  std::map<const void*, WaitQueue> once_waiters;   // by pthread_once_t
  std::map<const void*, WaitQueue> futex_waiters;  // by futex word

  std::vector<std::string> command;         // of the program that it runs: argv; empty: it runs none
  std::map<std::string, void*> libraries;   // path -> dlopen handle of this process's copy
  std::set<const void*> local_copies;       // of those that it opened without RTLD_GLOBAL
  std::set<std::string> offered_libraries;  // of those that the simulator offers: what it opened, or its files need
  std::set<std::string> strings;            // what getenv() handed out: stays valid for ever
  std::vector<char*> variables;             // environ(7), into `strings`
  char** environ_block = nullptr;           // what a copy's `environ` is
  std::vector<char***> environ_copies;      // of it, in a program
  std::map<std::string, void*, std::less<>> program_variables;  // its copies of variables of this process's libraries
  std::map<std::FILE*, int> streams;                            // fopen() of a simulated file -> its descriptor
  std::vector<void*> nccl_functions;                            // the library's own: load/nccl_calls.cpp
  std::set<const void*> directories;                            // opendir() of a simulated directory
  std::set<std::string> warned;                                 // warnings that were logged

  std::set<unsigned long> tls_modules;  // the dynamic linker's numbers of its copies with thread-local variables
  StaticTls static_tls;

  std::shared_ptr<Getopt> getopt;  // load/getopt.cpp; nullptr: none of it was asked for
  std::shared_ptr<bool> has_exited = std::make_shared<bool>(false);  // its program, with all its exit calls
  std::shared_ptr<ProgramRun> program;  // load/program.cpp; nullptr: it runs none, and has run none

  // Unlocks that polling threads were notified of at this instant: see tell_pollers().
  Picoseconds told_ps = -1;
  int told_count = 0;
};

ProcessState& state_of(Process& process);
/// Of the running thread's process; there must be one.
ProcessState& current_state();
ThreadRecord& current_record();
/// No simulated thread runs (static constructors and destructors, main): the real libc must answer.
inline bool outside() { return World::current() == nullptr; }

/// Destroys the thread's thread_local objects, the last made first: thread_local.cpp.
void run_thread_exit_calls(ThreadRecord& record);

/// The current thread changed memory that polling threads of its process may look at (an unlock, a signal, a post).
/// Bounded for each instant, so that two polling loops that share a mutex do not wake each other for ever.
void tell_pollers();

/// The number by which polling loops know an object of the program's that has room for one: given when it is asked for.
std::uint32_t number_in(std::uint32_t& place);

/// True the first time for this process and text.
bool first_time(ProcessState& state, const std::string& text);

class UnixDatagram;
class UnixSocket;

/// A library of the simulator's own that all ranks find by a name.
struct OfferedLibrary {
  void* handle = nullptr;
  /// Whether the process has called it, however it came to it.
  bool (*in_use)(const Process& process) = nullptr;
};

struct Host {
  Host();
  ~Host();

  HostOptions options;
  HostCounters counters;
  TcpStack tcp;
  UdpStack udp;
  std::map<std::pair<int, std::string>, UnixSocket*> unix_names;                      // by node and abstract name
  std::map<std::pair<int, std::string>, std::weak_ptr<UnixDatagram>> unix_datagrams;  // by node and name
  std::map<std::pair<int, std::string>, int> shared_files;  // of /dev/shm, by node and name: a descriptor of each
  std::map<int, std::unique_ptr<SysfsTree>> sysfs;          // by node, made on first use
  std::map<std::uint64_t, std::shared_ptr<DeviceBuffer>> device_buffers;  // by address
  std::map<std::string, OfferedLibrary> offered_libraries;                // by name
  StaticTls outside_tls;         // what runs outside of ranks has in blocks that ranks share with it
  Thread* tls_thread = nullptr;  // whose values are in the places of static_tls; nullptr: outside_tls's
};

/// The current World's; made on first use.
Host& host();

}  // namespace meshbed::sim
