#include "plugin/dropin/mpi/calls.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>

namespace meshbed::dropin::mpi {

Process& process() {
  static auto* const only = new Process;
  return *only;
}

Communicator* communicator_of(MPI_Comm comm) {
  const Handle* handle = handle_of(comm, HandleKind::kCommunicator);
  if (handle == nullptr || handle->number == kNull) return nullptr;
  if (handle->number == kWorld) return &process().world;
  if (handle->number == kSelf) return &process().self;
  auto* made = reinterpret_cast<Communicator*>(comm);
  const auto& all = process().made;
  const auto is_it = [made](const auto& one) { return one.get() == made; };
  return std::any_of(all.begin(), all.end(), is_it) && !made->freed ? made : nullptr;
}

int finish(const char* call, const Communicator* communicator, const Outcome& outcome) {
  if (outcome.good()) return MPI_SUCCESS;
  if (outcome.on != nullptr) communicator = outcome.on;
  Process& own = process();
  const int rank = own.job != nullptr ? own.job->rank() : -1;
  std::fprintf(stderr, "%s: rank %d: %s\n", call, rank, outcome.text.c_str());
  if (communicator != nullptr && communicator->errors_return) return outcome.code;
  std::fflush(nullptr);
  fail_job(std::string(call) + ": " + outcome.text);
  std::_Exit(EXIT_FAILURE);
}

void fail_job(const std::string& text) {
  Process& own = process();
  if (own.job == nullptr) return;
  own.job->fail(text);
  own.job.reset();
}

Extent extent_of(int count, MPI_Datatype datatype) {
  if (count < 0) return {0, wrong(MPI_ERR_COUNT, "the count is " + std::to_string(count))};
  const std::size_t size = size_of(type_of(datatype));
  if (size == 0) return {0, wrong(MPI_ERR_TYPE, "the datatype is none of those in plugin/dropin/mpi/mpi.h")};
  return {size * static_cast<std::size_t>(count), well()};
}

Outcome check_rank(const Communicator& communicator, int rank, int code, const char* what) {
  if (rank >= 0 && rank < communicator.size()) return well();
  return wrong(code, std::string(what) + " is " + std::to_string(rank) + " of " + std::to_string(communicator.size()) +
                         " ranks");
}

Result<std::vector<std::string>> share(Communicator& communicator, const std::string& mine) {
  return process().job->exchange(communicator.next_exchange(), communicator.members, mine);
}

}  // namespace meshbed::dropin::mpi
