// The collective calls of mpi.h.

#include <cstddef>
#include <string>
#include <vector>

#include "plugin/dropin/mpi/calls.h"
#include "plugin/dropin/mpi/mpi.h"
#include "plugin/dropin/mpi/reduction.h"

namespace meshbed::dropin::mpi {

namespace {

void* block(void* buffer, std::size_t bytes, int index) {
  return static_cast<char*>(buffer) + bytes * static_cast<std::size_t>(index);
}

constexpr char kNotInPlace[] = "MPI_IN_PLACE is for ranks that receive the result";

Outcome wrong_size(int rank, std::size_t sent, std::size_t expected) {
  return wrong(MPI_ERR_TRUNCATE, "the counts differ: rank " + std::to_string(rank) + " sent " + std::to_string(sent) +
                                     " bytes, this rank expects " + std::to_string(expected));
}

/// Every rank's block of `sent` bytes goes into `receive`, where the call receives. In place, ours is there already.
Outcome collect(Communicator& communicator, const void* send, const Extent& sent, void* receive, const Extent& received,
                bool receives) {
  if (!sent.outcome.good()) return sent.outcome;
  if (receives && !received.outcome.good()) return received.outcome;
  const bool in_place = send == MPI_IN_PLACE;
  if (in_place && !receives) return wrong(MPI_ERR_BUFFER, kNotInPlace);
  const auto all =
      share(communicator, in_place ? bytes_at(block(receive, received.bytes, communicator.rank), received.bytes)
                                   : bytes_at(send, sent.bytes));
  if (!all) return failed(all.error());
  if (!receives) return well();
  for (int rank = 0; rank < communicator.size(); ++rank) {
    const std::string& part = (*all)[static_cast<std::size_t>(rank)];
    if (part.size() != received.bytes) return wrong_size(rank, part.size(), received.bytes);
    put(block(receive, received.bytes, rank), part);
  }
  return well();
}

Outcome reduction(Communicator& communicator, const void* send, void* receive, int count, MPI_Datatype datatype,
                  MPI_Op op, bool receives) {
  const Extent extent = extent_of(count, datatype);
  if (!extent.outcome.good()) return extent.outcome;
  if (!reduce(operation_of(op), type_of(datatype), nullptr, nullptr, 0)) {
    return wrong(MPI_ERR_OP, "the operation is not defined for this datatype");
  }
  if (send == MPI_IN_PLACE && !receives) return wrong(MPI_ERR_BUFFER, kNotInPlace);
  const auto all = share(communicator, bytes_at(send == MPI_IN_PLACE ? receive : send, extent.bytes));
  if (!all) return failed(all.error());
  std::string sum = all->front();
  for (std::size_t rank = 0; rank < all->size(); ++rank) {
    const std::string& part = (*all)[rank];
    if (part.size() != extent.bytes) return wrong_size(static_cast<int>(rank), part.size(), extent.bytes);
    if (rank == 0) continue;
    reduce(operation_of(op), type_of(datatype), sum.data(), part.data(), static_cast<std::size_t>(count));
  }
  if (receives) put(receive, sum);
  return well();
}

}  // namespace
}  // namespace meshbed::dropin::mpi

namespace mpi = meshbed::dropin::mpi;

extern "C" {

int MPI_Barrier(MPI_Comm comm) {
  return mpi::call_on("MPI_Barrier", comm, [](mpi::Communicator& communicator) {
    const auto all = mpi::share(communicator, "");
    return all ? mpi::well() : mpi::failed(all.error());
  });
}

int MPI_Bcast(void* buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm) {
  return mpi::call_on("MPI_Bcast", comm, [&](mpi::Communicator& communicator) {
    if (auto checked = mpi::check_rank(communicator, root, MPI_ERR_ROOT, "the root"); !checked.good()) {
      return checked;
    }
    const mpi::Extent extent = mpi::extent_of(count, datatype);
    if (!extent.outcome.good()) return extent.outcome;
    const bool is_root = communicator.rank == root;
    const auto all = mpi::share(communicator, is_root ? mpi::bytes_at(buffer, extent.bytes) : "");
    if (!all) return mpi::failed(all.error());
    const std::string& bytes = (*all)[static_cast<std::size_t>(root)];
    if (bytes.size() != extent.bytes) return mpi::wrong_size(root, bytes.size(), extent.bytes);
    if (!is_root) mpi::put(buffer, bytes);
    return mpi::well();
  });
}

int MPI_Gather(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
               MPI_Datatype recvtype, int root, MPI_Comm comm) {
  return mpi::call_on("MPI_Gather", comm, [&](mpi::Communicator& communicator) {
    if (auto checked = mpi::check_rank(communicator, root, MPI_ERR_ROOT, "the root"); !checked.good()) {
      return checked;
    }
    const bool is_root = communicator.rank == root;
    return mpi::collect(communicator, sendbuf,
                        sendbuf == MPI_IN_PLACE ? mpi::Extent() : mpi::extent_of(sendcount, sendtype), recvbuf,
                        is_root ? mpi::extent_of(recvcount, recvtype) : mpi::Extent(), is_root);
  });
}

int MPI_Allgather(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
                  MPI_Datatype recvtype, MPI_Comm comm) {
  return mpi::call_on("MPI_Allgather", comm, [&](mpi::Communicator& communicator) {
    return mpi::collect(communicator, sendbuf,
                        sendbuf == MPI_IN_PLACE ? mpi::Extent() : mpi::extent_of(sendcount, sendtype), recvbuf,
                        mpi::extent_of(recvcount, recvtype), true);
  });
}

int MPI_Scatter(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
                MPI_Datatype recvtype, int root, MPI_Comm comm) {
  return mpi::call_on("MPI_Scatter", comm, [&](mpi::Communicator& communicator) {
    if (auto checked = mpi::check_rank(communicator, root, MPI_ERR_ROOT, "the root"); !checked.good()) {
      return checked;
    }
    const bool is_root = communicator.rank == root, in_place = recvbuf == MPI_IN_PLACE;
    const mpi::Extent sent = is_root ? mpi::extent_of(sendcount, sendtype) : mpi::Extent();
    const mpi::Extent received = in_place ? mpi::Extent() : mpi::extent_of(recvcount, recvtype);
    if (!sent.outcome.good()) return sent.outcome;
    if (!received.outcome.good()) return received.outcome;
    if (in_place && !is_root) return mpi::wrong(MPI_ERR_BUFFER, mpi::kNotInPlace);
    const auto all =
        mpi::share(communicator, is_root ? mpi::bytes_at(sendbuf, sent.bytes * communicator.members.size()) : "");
    if (!all) return mpi::failed(all.error());
    if (in_place) return mpi::well();
    const std::string& blocks = (*all)[static_cast<std::size_t>(root)];
    const std::size_t bytes = blocks.size() / communicator.members.size();
    if (bytes != received.bytes) return mpi::wrong_size(root, bytes, received.bytes);
    mpi::put(recvbuf, blocks.substr(bytes * static_cast<std::size_t>(communicator.rank), bytes));
    return mpi::well();
  });
}

int MPI_Alltoall(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
                 MPI_Datatype recvtype, MPI_Comm comm) {
  return mpi::call_on("MPI_Alltoall", comm, [&](mpi::Communicator& communicator) {
    const mpi::Extent received = mpi::extent_of(recvcount, recvtype);
    const bool in_place = sendbuf == MPI_IN_PLACE;
    const mpi::Extent sent = in_place ? received : mpi::extent_of(sendcount, sendtype);
    if (!sent.outcome.good()) return sent.outcome;
    if (!received.outcome.good()) return received.outcome;
    const auto all =
        mpi::share(communicator, mpi::bytes_at(in_place ? recvbuf : sendbuf, sent.bytes * communicator.members.size()));
    if (!all) return mpi::failed(all.error());
    for (int rank = 0; rank < communicator.size(); ++rank) {
      const std::string& blocks = (*all)[static_cast<std::size_t>(rank)];
      const std::size_t bytes = blocks.size() / communicator.members.size();
      if (bytes != received.bytes) return mpi::wrong_size(rank, bytes, received.bytes);
      mpi::put(mpi::block(recvbuf, received.bytes, rank),
               blocks.substr(received.bytes * static_cast<std::size_t>(communicator.rank), received.bytes));
    }
    return mpi::well();
  });
}

int MPI_Reduce(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op, int root,
               MPI_Comm comm) {
  return mpi::call_on("MPI_Reduce", comm, [&](mpi::Communicator& communicator) {
    if (auto checked = mpi::check_rank(communicator, root, MPI_ERR_ROOT, "the root"); !checked.good()) {
      return checked;
    }
    return mpi::reduction(communicator, sendbuf, recvbuf, count, datatype, op, communicator.rank == root);
  });
}

int MPI_Allreduce(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm) {
  return mpi::call_on("MPI_Allreduce", comm, [&](mpi::Communicator& communicator) {
    return mpi::reduction(communicator, sendbuf, recvbuf, count, datatype, op, true);
  });
}

}  // extern "C"
