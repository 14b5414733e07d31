// The calls of mpi.h that begin and end a job and make communicators, and those that report facts.

#include "plugin/dropin/mpi/mpi.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "plugin/base/deadline.h"
#include "plugin/dropin/mpi/calls.h"

namespace meshbed::dropin::mpi {

namespace {

/// The new communicator of the members with our colour, ordered by key and rank; nullptr: we take no part.
Result<Communicator*> split(Communicator& parent, const std::string& colour, int key, bool takes_part) {
  const std::string name = parent.name + "/" + std::to_string(parent.children++);
  const auto all = share(parent, (takes_part ? "+" : "-") + bytes_at(&key, sizeof(key)) + colour);
  if (!all) return all.error();
  if (!takes_part) return static_cast<Communicator*>(nullptr);
  std::vector<std::pair<int, int>> keyed;  // key, and rank in the parent
  for (int rank = 0; rank < parent.size(); ++rank) {
    const std::string& theirs = (*all)[static_cast<std::size_t>(rank)];
    int their_key = 0;
    if (theirs.front() != '+' || theirs.substr(1 + sizeof(their_key)) != colour) continue;
    std::memcpy(&their_key, theirs.data() + 1, sizeof(their_key));
    keyed.emplace_back(their_key, rank);
  }
  std::sort(keyed.begin(), keyed.end());
  auto made = std::make_unique<Communicator>();
  // Groups of one split have no member in common, so the rank of the first member identifies them.
  made->name = name + "." + std::to_string(keyed.front().second);
  made->errors_return = parent.errors_return;
  for (const auto& [unused, rank] : keyed) {
    if (rank == parent.rank) made->rank = made->size();
    made->members.push_back(parent.members[static_cast<std::size_t>(rank)]);
  }
  process().made.push_back(std::move(made));
  return process().made.back().get();
}

Outcome split_into(Communicator& parent, const std::string& colour, int key, bool takes_part, MPI_Comm* made) {
  const auto communicator = split(parent, colour, key, takes_part);
  if (!communicator) return failed(communicator.error());
  *made = *communicator == nullptr ? MPI_COMM_NULL : reinterpret_cast<MPI_Comm>(*communicator);
  return well();
}

std::string host_name() {
  std::array<char, MPI_MAX_PROCESSOR_NAME> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

/// Ends the job on all ranks, from any thread.
void end_job(const std::string& text) {
  Process& own = process();
  // Another thread's call may hold the lock, and may never return.
  if (const std::unique_lock hold(own.lock, std::try_to_lock); hold.owns_lock()) {
    fail_job(text);
  } else if (own.job != nullptr) {
    own.job->abort(text);
  }
}

void end_at_exit() {
  Process& own = process();
  if (own.job == nullptr) return;
  std::fprintf(stderr, "MPI: rank %d: the program ended without MPI_Finalize\n", own.job->rank());
  end_job("the program ended without MPI_Finalize");
}

Outcome begin() {
  Process& own = process();
  if (own.initialised) return wrong(MPI_ERR_OTHER, "it was called before");
  auto job = Job::join();
  if (!job) return failed(job.error());
  own.job = std::move(*job);
  own.world.name = "w";
  own.world.members.resize(static_cast<std::size_t>(own.job->world()));
  std::iota(own.world.members.begin(), own.world.members.end(), 0);
  own.world.rank = own.job->rank();
  own.self.name = "s" + std::to_string(own.job->rank());
  own.self.members = {own.job->rank()};
  own.initialised = true;
  if (std::atexit(&end_at_exit) != 0) return wrong(MPI_ERR_OTHER, "atexit() failed");
  return well();
}

int begin_as(const char* name, int thread_level) {
  const std::lock_guard hold(process().lock);
  const Outcome begun = begin();
  if (begun.good()) process().thread_level = thread_level;
  return finish(name, nullptr, begun);
}

}  // namespace
}  // namespace meshbed::dropin::mpi

namespace mpi = meshbed::dropin::mpi;

extern "C" {

int MPI_Init(int*, char***) { return mpi::begin_as("MPI_Init", MPI_THREAD_SINGLE); }

int MPI_Init_thread(int*, char***, int required, int* provided) {
  *provided = std::min<int>(required, MPI_THREAD_SERIALIZED);
  return mpi::begin_as("MPI_Init_thread", *provided);
}

int MPI_Initialized(int* flag) {
  const std::lock_guard hold(mpi::process().lock);
  *flag = mpi::process().initialised ? 1 : 0;
  return MPI_SUCCESS;
}

int MPI_Query_thread(int* provided) {
  return mpi::call_on("MPI_Query_thread", MPI_COMM_WORLD, [&](const mpi::Communicator&) {
    *provided = mpi::process().thread_level;
    return mpi::well();
  });
}

int MPI_Finalize(void) {
  return mpi::call_on("MPI_Finalize", MPI_COMM_WORLD, [](mpi::Communicator&) {
    mpi::Process& own = mpi::process();
    const auto met = own.job->barrier();
    if (!met) return mpi::failed(met.error());
    own.job.reset();
    own.finalised = true;
    return mpi::well();
  });
}

int MPI_Finalized(int* flag) {
  const std::lock_guard hold(mpi::process().lock);
  *flag = mpi::process().finalised ? 1 : 0;
  return MPI_SUCCESS;
}

int MPI_Abort(MPI_Comm, int errorcode) {
  mpi::Process& own = mpi::process();
  std::fprintf(stderr, "MPI_Abort: rank %d: the program ends the job with status %d\n",
               own.job != nullptr ? own.job->rank() : -1, errorcode);
  std::fflush(nullptr);
  mpi::end_job("MPI_Abort with status " + std::to_string(errorcode));
  std::_Exit(errorcode);
}

int MPI_Comm_rank(MPI_Comm comm, int* rank) {
  return mpi::call_on("MPI_Comm_rank", comm, [&](const mpi::Communicator& communicator) {
    *rank = communicator.rank;
    return mpi::well();
  });
}

int MPI_Comm_size(MPI_Comm comm, int* size) {
  return mpi::call_on("MPI_Comm_size", comm, [&](const mpi::Communicator& communicator) {
    *size = communicator.size();
    return mpi::well();
  });
}

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* newcomm) {
  return mpi::call_on("MPI_Comm_dup", comm, [&](mpi::Communicator& communicator) {
    return mpi::split_into(communicator, "", communicator.rank, true, newcomm);
  });
}

int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm* newcomm) {
  return mpi::call_on("MPI_Comm_split", comm, [&](mpi::Communicator& communicator) {
    if (color < 0 && color != MPI_UNDEFINED) {
      return mpi::wrong(MPI_ERR_ARG, "the color is " + std::to_string(color));
    }
    return mpi::split_into(communicator, std::to_string(color), key, color != MPI_UNDEFINED, newcomm);
  });
}

int MPI_Comm_split_type(MPI_Comm comm, int split_type, int key, MPI_Info, MPI_Comm* newcomm) {
  return mpi::call_on("MPI_Comm_split_type", comm, [&](mpi::Communicator& communicator) {
    if (split_type != MPI_COMM_TYPE_SHARED && split_type != MPI_UNDEFINED) {
      return mpi::wrong(MPI_ERR_ARG, "split_type: only MPI_COMM_TYPE_SHARED is supported");
    }
    return mpi::split_into(communicator, mpi::host_name(), key, split_type != MPI_UNDEFINED, newcomm);
  });
}

int MPI_Comm_free(MPI_Comm* comm) {
  return mpi::call_on("MPI_Comm_free", *comm, [&](const mpi::Communicator& communicator) {
    auto& made = mpi::process().made;
    const auto is_it = [&](const auto& one) { return one.get() == &communicator; };
    const auto found = std::find_if(made.begin(), made.end(), is_it);
    if (found == made.end()) return mpi::wrong(MPI_ERR_COMM, "MPI_COMM_WORLD and MPI_COMM_SELF cannot be freed");
    (*found)->freed = true;
    *comm = MPI_COMM_NULL;
    return mpi::well();
  });
}

int MPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler errhandler) {
  return mpi::call_on("MPI_Comm_set_errhandler", comm, [&](mpi::Communicator& communicator) {
    const mpi::Handle* handle = mpi::handle_of(errhandler, mpi::HandleKind::kErrorHandler);
    if (handle == nullptr) {
      return mpi::wrong(MPI_ERR_ARG, "only MPI_ERRORS_ARE_FATAL and MPI_ERRORS_RETURN are supported");
    }
    communicator.errors_return = handle->number == mpi::kErrorsReturn;
    return mpi::well();
  });
}

int MPI_Type_size(MPI_Datatype datatype, int* size) {
  return mpi::call_on("MPI_Type_size", MPI_COMM_WORLD, [&](const mpi::Communicator&) {
    const mpi::Extent one = mpi::extent_of(1, datatype);
    *size = static_cast<int>(one.bytes);
    return one.outcome;
  });
}

int MPI_Get_processor_name(char* name, int* resultlen) {
  const std::string host = mpi::host_name();
  std::memcpy(name, host.c_str(), host.size() + 1);
  *resultlen = static_cast<int>(host.size());
  return MPI_SUCCESS;
}

int MPI_Get_version(int* version, int* subversion) {
  *version = 3;
  *subversion = 1;
  return MPI_SUCCESS;
}

int MPI_Get_library_version(char* version, int* resultlen) {
  constexpr char kText[] = "Meshbed's drop-in for programs that meet by MPI, in Open MPI 4's binary interface";
  std::memcpy(version, kText, sizeof(kText));
  *resultlen = sizeof(kText) - 1;
  return MPI_SUCCESS;
}

int MPI_Error_string(int errorcode, char* string, int* resultlen) {
  *resultlen = std::snprintf(string, MPI_MAX_ERROR_STRING, "MPI error %d: see the line on standard error", errorcode);
  return MPI_SUCCESS;
}

double MPI_Wtime(void) { return static_cast<double>(meshbed::now_ns()) * 1e-9; }

double MPI_Wtick(void) { return 1e-9; }

}  // extern "C"
