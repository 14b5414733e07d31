// The calls of mpi.h that send and receive.

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "plugin/dropin/mpi/calls.h"
#include "plugin/dropin/mpi/mpi.h"

namespace meshbed::dropin::mpi {

namespace {

Outcome check_message(const Communicator& communicator, int other, int tag, const char* what) {
  if (other == MPI_PROC_NULL) return well();
  if (other == MPI_ANY_SOURCE || tag == MPI_ANY_TAG) {
    return wrong(MPI_ERR_ARG, "MPI_ANY_SOURCE and MPI_ANY_TAG are not supported: name the source and the tag");
  }
  if (tag < 0) return wrong(MPI_ERR_TAG, "the tag is " + std::to_string(tag));
  return check_rank(communicator, other, MPI_ERR_RANK, what);
}

Outcome send(Communicator& communicator, const void* buffer, int count, MPI_Datatype datatype, int to, int tag) {
  if (auto checked = check_message(communicator, to, tag, "the destination"); !checked.good()) return checked;
  const Extent extent = extent_of(count, datatype);
  if (!extent.outcome.good() || to == MPI_PROC_NULL) return extent.outcome;
  // Before it has a number: the receiver waits for the next one that is sent.
  if (auto fits = Job::check_size(extent.bytes); !fits) return failed(fits.error());
  const auto sent =
      process().job->send(communicator.next_sent(to, tag), communicator.members[static_cast<std::size_t>(to)],
                          bytes_at(buffer, extent.bytes));
  return sent ? well() : failed(sent.error());
}

/// Begins a receive. One from MPI_PROC_NULL is done at once.
Outcome post(Communicator& communicator, void* buffer, int count, MPI_Datatype datatype, int from, int tag,
             Request* request) {
  if (auto checked = check_message(communicator, from, tag, "the source"); !checked.good()) return checked;
  const Extent extent = extent_of(count, datatype);
  if (!extent.outcome.good()) return extent.outcome;
  request->communicator = &communicator;
  request->buffer = buffer;
  request->bytes = extent.bytes;
  request->source = from;
  request->tag = from == MPI_PROC_NULL ? MPI_ANY_TAG : tag;
  request->done = from == MPI_PROC_NULL;
  if (!request->done) {
    request->message = communicator.next_received(from, tag);
  }
  return well();
}

Outcome complete(const Request& request, MPI_Status* status) {
  std::size_t bytes = 0;
  if (!request.done) {
    const int from = request.communicator->members[static_cast<std::size_t>(request.source)];
    const auto message = process().job->receive(request.message, from);
    if (!message) return failed(message.error());
    if (message->size() > request.bytes) {
      return wrong(MPI_ERR_TRUNCATE, "rank " + std::to_string(request.source) + " sent " +
                                         std::to_string(message->size()) + " bytes, and there is room for " +
                                         std::to_string(request.bytes));
    }
    put(request.buffer, *message);
    bytes = message->size();
  }
  if (status != MPI_STATUS_IGNORE) {
    *status = {.MPI_SOURCE = request.source,
               .MPI_TAG = request.tag,
               .MPI_ERROR = MPI_SUCCESS,
               ._cancelled = 0,
               ._ucount = bytes};
  }
  return well();
}

Outcome wait_for(MPI_Request* handle, MPI_Status* status) {
  const Handle* known = handle_of(*handle, HandleKind::kRequest);
  if (known == nullptr) return wrong(MPI_ERR_REQUEST, "this is not a request");
  if (known->number != kMade) {  // MPI_REQUEST_NULL: an empty status
    if (status != MPI_STATUS_IGNORE) *status = {MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_SUCCESS, 0, 0};
    return well();
  }
  const std::unique_ptr<Request> request(reinterpret_cast<Request*>(*handle));
  *handle = MPI_REQUEST_NULL;
  Outcome outcome = complete(*request, status);
  outcome.on = request->communicator;
  return outcome;
}

}  // namespace
}  // namespace meshbed::dropin::mpi

namespace mpi = meshbed::dropin::mpi;

extern "C" {

int MPI_Send(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm) {
  return mpi::call_on("MPI_Send", comm, [&](mpi::Communicator& communicator) {
    return mpi::send(communicator, buf, count, datatype, dest, tag);
  });
}

int MPI_Recv(void* buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Status* status) {
  return mpi::call_on("MPI_Recv", comm, [&](mpi::Communicator& communicator) {
    mpi::Request request;
    auto posted = mpi::post(communicator, buf, count, datatype, source, tag, &request);
    return posted.good() ? mpi::complete(request, status) : posted;
  });
}

int MPI_Sendrecv(const void* sendbuf, int sendcount, MPI_Datatype sendtype, int dest, int sendtag, void* recvbuf,
                 int recvcount, MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm, MPI_Status* status) {
  return mpi::call_on("MPI_Sendrecv", comm, [&](mpi::Communicator& communicator) {
    auto sent = mpi::send(communicator, sendbuf, sendcount, sendtype, dest, sendtag);
    if (!sent.good()) return sent;
    mpi::Request request;
    auto posted = mpi::post(communicator, recvbuf, recvcount, recvtype, source, recvtag, &request);
    return posted.good() ? mpi::complete(request, status) : posted;
  });
}

int MPI_Isend(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
              MPI_Request* request) {
  return mpi::call_on("MPI_Isend", comm, [&](mpi::Communicator& communicator) {
    auto sent = mpi::send(communicator, buf, count, datatype, dest, tag);
    if (!sent.good()) return sent;
    auto made = std::make_unique<mpi::Request>();
    made->communicator = &communicator;
    made->done = true;
    *request = reinterpret_cast<MPI_Request>(made.release());
    return sent;
  });
}

int MPI_Irecv(void* buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Request* request) {
  return mpi::call_on("MPI_Irecv", comm, [&](mpi::Communicator& communicator) {
    auto made = std::make_unique<mpi::Request>();
    auto posted = mpi::post(communicator, buf, count, datatype, source, tag, made.get());
    if (posted.good()) *request = reinterpret_cast<MPI_Request>(made.release());
    return posted;
  });
}

int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  return mpi::call_on("MPI_Wait", MPI_COMM_WORLD,
                      [&](const mpi::Communicator&) { return mpi::wait_for(request, status); });
}

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[]) {
  return mpi::call_on("MPI_Waitall", MPI_COMM_WORLD, [&](const mpi::Communicator&) {
    mpi::Outcome first;
    for (int index = 0; index < count; ++index) {
      MPI_Status* const status = statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[index];
      auto done = mpi::wait_for(&requests[index], status);
      if (status != MPI_STATUS_IGNORE) status->MPI_ERROR = done.code;
      if (first.good() && !done.good()) first = std::move(done);
    }
    if (!first.good()) first.code = MPI_ERR_IN_STATUS;
    return first;
  });
}

int MPI_Get_count(const MPI_Status* status, MPI_Datatype datatype, int* count) {
  return mpi::call_on("MPI_Get_count", MPI_COMM_WORLD, [&](const mpi::Communicator&) {
    const mpi::Extent one = mpi::extent_of(1, datatype);
    if (!one.outcome.good()) return one.outcome;
    *count = status->_ucount % one.bytes == 0 ? static_cast<int>(status->_ucount / one.bytes) : MPI_UNDEFINED;
    return mpi::well();
  });
}

}  // extern "C"
