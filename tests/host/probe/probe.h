#pragma once
// The probe: an ordinary shared library that knows nothing of the simulator. Tests load a copy of it for each rank and
// look through its eyes. Elapsed times are what its own CLOCK_MONOTONIC says.

#include <cstddef>
#include <cstdint>

/// The outcome of a call: 0 or an errno value, and how long it took.
struct ProbeOutcome {
  int error;
  std::int64_t elapsed_ns;
};

struct ProbeTable {
  // --- the library itself ---
  int (*next_global)();  // 1, 2, ...: a static counter
  void* (*open_library)(const char* name, const char* symbol, char* error, std::size_t error_size);
  bool (*has_library)(const char* name);  // it is loaded here already
  void (*throw_where_nobody_catches)();   // "probe: nothing catches this"; does not return

  // --- threads ---
  int (*count_with_threads)(int threads, int rounds);  // std::thread, std::mutex: threads * rounds
  int (*queue_sum)(int items);                         // a producer and a consumer with a std::condition_variable
  ProbeOutcome (*wait_on_condition)(int timeout_ms);   // ETIMEDOUT after the timeout: no thread notifies
  ProbeOutcome (*lock_held_mutex)(int timeout_ms);     // std::timed_mutex that another thread holds
  int (*lock_order)(int threads, int* order);          // order in which waiting threads got a mutex
  int (*create_thread)();                              // the answer; a thread that began is joined
  int (*mutex_errors)();                               // number of wrong answers of recursive and errorcheck mutexes
  int (*thread_data)(int threads);                     // number of threads that saw another's pthread_getspecific value
  int (*thread_locals)(int threads);                   // number of wrong thread_local values and caught exceptions
  int (*once_runs)(int threads);     // runs of a std::call_once routine that sleeps, and a static local
  int (*semaphores_and_barriers)();  // number of wrong answers
  int (*readers_and_writers)();      // number of wrong answers
  void (*cross_locks)();             // two threads lock two mutexes crosswise: never returns
  int (*poll_shared_flag)();         // two threads poll under one mutex until a third sets a flag
  int (*atomic_wait)();              // std::atomic::wait, another thread notifies

  // --- clocks and identity ---
  std::int64_t (*clock_ns)(int clock);
  std::int64_t (*sleep_ns)(std::int64_t duration_ns);  // elapsed
  std::int64_t (*read_clock_until_ns)(std::int64_t elapsed_ns);
  std::uint64_t (*random_word)();
  const char* (*variable)(const char* name);
  int (*set_variable)(const char* name, const char* value);
  int (*host_name)(char* name, std::size_t size);
  int (*process_id)();
  int (*thread_id)(bool raw);  // by the call, or by syscall(2)
  int (*refused)();            // number of dangerous calls that were not refused

  // --- sockets; ports in host order, descriptors as they come ---
  int (*listen_on)(const char* address, int port, int backlog);  // descriptor, or -errno
  int (*port_of)(int descriptor);
  int (*accept_one)(int descriptor);                                                 // descriptor, or -errno; blocks
  ProbeOutcome (*connect_to)(const char* address, int port, int* descriptor);        // blocking
  ProbeOutcome (*connect_and_poll)(const char* address, int port, int* descriptor);  // non-blocking, poll, SO_ERROR
  ProbeOutcome (*connect_from)(const char* source, const char* address, int port, int* descriptor);
  std::int64_t (*send_all)(int descriptor, const char* data, std::size_t size);  // bytes or -errno
  std::int64_t (*receive)(int descriptor, char* data, std::size_t size, int flags);
  std::int64_t (*fill_until_full)(int descriptor);  // non-blocking sends until EAGAIN: bytes
  ProbeOutcome (*poll_for)(int descriptor, int events, int timeout_ms, int* revents);
  int (*shut_write)(int descriptor);
  int (*close_descriptor)(int descriptor);
  int (*peer_text)(int descriptor, char* text, std::size_t size);  // "address:port"
  int (*pipes)();  // number of wrong answers of pipe, eventfd, socketpair

  // --- datagrams; -errno where it fails ---
  int (*open_datagrams)(const char* address, int port);  // shares its port, may broadcast
  std::int64_t (*send_datagram)(int descriptor, const char* text, const char* address, int port);
  /// IPV6_PKTINFO; in two parts.
  std::int64_t (*send_datagram_from)(int descriptor, const char* text, const char* address, int port,
                                     const char* interface, const char* source);
  std::int64_t (*receive_datagram)(int descriptor, char* text, std::size_t size, char* source, std::size_t source_size);
  int (*multicast_through)(int descriptor, const char* interface);
  int (*datagram_errors)();  // number of wrong answers

  // --- interfaces, names, files ---
  int (*interfaces)(char* text, std::size_t size);  // "name address/mask flags\n" each
  int (*resolve)(const char* host, const char* service, char* text, std::size_t size);  // "address:port", EAI_ code
  int (*read_file)(const char* path, char* text, std::size_t size);    // bytes or -errno, by open and read
  int (*read_stream)(const char* path, char* text, std::size_t size);  // by std::ifstream; -1: failed
  int (*read_stdio)(const char* path, char* text, std::size_t size);   // by fopen and fgets; -errno
  int (*list)(const char* path, char* text, std::size_t size);         // names, each followed by a space; -errno
  int (*real_path)(const char* path, char* text, std::size_t size);    // 0 or -errno
};

extern "C" __attribute__((visibility("default"))) const ProbeTable* probe_table();
