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
  bool good() const { return code == MPI_SUCCESS; }
};
inline Outcome well() { return {}; }
inline Outcome wrong(int code, std::string text) { return {code, std::move(text)}; }
inline Outcome failed(const Error& error) { return {MPI_ERR_OTHER, error.text}; }

/// nullptr: it is none.
Communicator* communicator_of(MPI_Comm comm);
/// The call's answer. An error is written to standard error, and ends the process unless the communicator wants it
/// returned.
int finish(const char* call, const Communicator* communicator, const Outcome& outcome);

template <typename Body>
int call_on(const char* name, MPI_Comm comm, Body body) {
  Process& own = process();
  const std::lock_guard hold(own.lock);
  if (!own.initialised || own.finalised) {
    return finish(name, nullptr,
                  wrong(MPI_ERR_OTHER, own.finalised ? "MPI_Finalize was called before" : "MPI_Init was not called"));
  }
  Communicator* communicator = communicator_of(comm);
  if (communicator == nullptr) return finish(name, nullptr, wrong(MPI_ERR_COMM, "this is no communicator"));
  return finish(name, communicator, body(*communicator));
}

/// Of `count` elements; an error says what is wrong with them.
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
/// What every member has handed over, in the communicator's order.
Result<std::vector<std::string>> share(Communicator& communicator, const std::string& mine);

}  // namespace meshbed::dropin::mpi
