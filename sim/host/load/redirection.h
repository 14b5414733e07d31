#pragma once
// Redirections: which imported function of a rank's library becomes which function of the simulator.
//
// One table for all ranks, by name. A redirected function that is called outside of a simulated thread behaves as
// libc's.

#include <span>

namespace meshbed::sim {

struct Redirection {
  const char* name;
  void* function;
};

template <typename Function>
Redirection redirect(const char* name, Function* function) {
  return {name, reinterpret_cast<void*>(function)};
}

/// nullptr where `name` is left alone.
void* redirection_of(const char* name);

// Each source that replaces something gives its part of the table.
std::span<const Redirection> thread_redirections();            // threads.cpp
std::span<const Redirection> thread_data_redirections();       // thread_data.cpp: keys, once
std::span<const Redirection> thread_local_redirections();      // thread_local.cpp
std::span<const Redirection> mutex_redirections();             // mutex.cpp
std::span<const Redirection> condition_redirections();         // condition.cpp
std::span<const Redirection> rwlock_redirections();            // rwlock.cpp
std::span<const Redirection> semaphore_redirections();         // semaphore.cpp: semaphores, barriers, spin locks
std::span<const Redirection> syscall_redirections();           // syscall.cpp
std::span<const Redirection> clock_redirections();             // clocks.cpp
std::span<const Redirection> random_redirections();            // randomness.cpp
std::span<const Redirection> identity_redirections();          // identity.cpp: pid, host name, environment
std::span<const Redirection> linking_redirections();           // linking.cpp: dlopen and friends
std::span<const Redirection> socket_redirections();            // socket_calls.cpp
std::span<const Redirection> transfer_redirections();          // socket_transfer.cpp: send, recv and friends
std::span<const Redirection> option_redirections();            // socket_options.cpp
std::span<const Redirection> descriptor_redirections();        // descriptor_calls.cpp: read, write, close, fcntl, ioctl
std::span<const Redirection> poll_redirections();              // poll.cpp
std::span<const Redirection> pipe_redirections();              // pipe.cpp: pipe, socketpair, eventfd
std::span<const Redirection> interface_redirections();         // interfaces.cpp: getifaddrs and friends
std::span<const Redirection> name_redirections();              // names.cpp: getaddrinfo and friends
std::span<const Redirection> path_redirections();              // path_calls.cpp: open, stat, access, readlink
std::span<const Redirection> stream_redirections();            // stream_calls.cpp: fopen, opendir and friends
std::span<const Redirection> shared_file_redirections();       // shared_files.cpp: shm_open, mkstemp
std::span<const Redirection> affinity_redirections();          // affinity.cpp: sched_setaffinity and friends
std::span<const Redirection> standard_library_redirections();  // standard_library.cpp: libstdc++'s threads and clocks
std::span<const Redirection> program_redirections();           // program.cpp: exit and abort
std::span<const Redirection> getopt_redirections();            // getopt.cpp
std::span<const Redirection> refused_redirections();           // refused.cpp: what the simulator has no answer for

}  // namespace meshbed::sim
