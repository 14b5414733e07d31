#pragma once
// Calls: what every call of mpi.h begins and ends with.

#include <cstddef>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "plugin/base/result.h"
#include "plugin/dropin/mpi/communicator.h"
#include "plugin/dropin/mpi/handles.h"

namespace meshbed::dropin::mpi {

struct Outcome {
  int code = MPI_SUCCESS;
  std::string text{};
  const Communicator* on = nullptr;  // whose error handler counts; nullptr: that of the call's own communicator
  bool good() const { return code == MPI_SUCCESS; }
};
inline Outcome well() { return {}; }
inline Outcome wrong(int code, std::string text) { return {code, std::move(text)}; }
inline Outcome failed(const Error& error) { return {MPI_ERR_OTHER, error.text}; }

/// nullptr: `comm` is MPI_COMM_NULL, was freed, or is no communicator.
Communicator* communicator_of(MPI_Comm comm);
/// The call's return value. An error is written to standard error, and ends the process unless the communicator has
/// MPI_ERRORS_RETURN.
int finish(const char* call, const Communicator* communicator, const Outcome& outcome);

/// Ends the job on all ranks with this error; the caller holds the lock. Rank 0 returns when the others have left, at
/// most 30 s later, so that they receive the reason.
void fail_job(const std::string& text);

template <typename Body>
int call_on(const char* name, MPI_Comm comm, Body body) {
  Process& own = process();
  const std::lock_guard hold(own.lock);
  if (own.job == nullptr) {
    return finish(name, nullptr,
                  wrong(MPI_ERR_OTHER, own.initialised ? "the job has ended on this rank" : "MPI_Init was not called"));
  }
  Communicator* communicator = communicator_of(comm);
  if (communicator == nullptr)
    return finish(name, nullptr, wrong(MPI_ERR_COMM, "this is not a communicator, or it was freed"));
  return finish(name, communicator, body(*communicator));
}

/// The size of `count` elements, or the error in them.
struct Extent {
  std::size_t bytes = 0;
  Outcome outcome{};
};
Extent extent_of(int count, MPI_Datatype datatype);
Outcome check_rank(const Communicator& communicator, int rank, int code, const char* what);

inline std::string bytes_at(const void* from, std::size_t bytes) {
  return bytes == 0 ? std::string() : std::string(static_cast<const char*>(from), bytes);
}
inline void put(void* to, const std::string& bytes) {
  if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
}
/// Collective: every member's `mine`, in the communicator's order.
Result<std::vector<std::string>> share(Communicator& communicator, const std::string& mine);

}  // namespace meshbed::dropin::mpi
