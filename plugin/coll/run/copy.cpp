#include "plugin/coll/run/copy.h"

#include <algorithm>
#include <new>

namespace meshbed::coll {
namespace {

constexpr const char* kNoMemory = "no memory left";  // short enough to lie in the string itself

}  // namespace

Copy& this_copy() {
  static auto* copy = new Copy;
  return *copy;
}

meshcoll_comm* wrap(std::unique_ptr<Communicator> communicator) {
  Copy& copy = this_copy();
  auto comm = std::make_unique<meshcoll_comm>();
  comm->communicator = std::move(communicator);
  const std::lock_guard<std::mutex> lock(copy.mutex);
  comm->number = ++copy.made;
  copy.live.push_back(comm.get());
  return comm.release();
}

void keep_error(std::string_view call, std::string_view text) {
  Copy& copy = this_copy();
  const std::lock_guard<std::mutex> lock(copy.mutex);
  try {
    copy.error.assign(call).append(": ").append(text);
  } catch (const std::bad_alloc&) {
    copy.error = kNoMemory;
  }
}

Error error_of(const std::exception& thrown) {
  Error error{ErrorCode::kInternal, Scope::kJob, {}};
  try {
    error.text = std::string("exception: ") + thrown.what();
  } catch (const std::bad_alloc&) {
    error.text = kNoMemory;
  }
  return error;
}

Visit::Visit(const meshcoll_comm* comm) {
  Copy& copy = this_copy();
  const std::lock_guard<std::mutex> lock(copy.mutex);
  if (std::find(copy.live.begin(), copy.live.end(), comm) == copy.live.end()) return;
  of_parent_ = comm->owner != ::getpid();
  if (of_parent_) return;
  comm_ = const_cast<meshcoll_comm*>(comm);  // of whose users we are one
  ++comm_->users;
}

Visit::~Visit() {
  if (comm_ == nullptr) return;
  Copy& copy = this_copy();
  const std::lock_guard<std::mutex> lock(copy.mutex);
  --comm_->users;
  copy.left.notify_all();
}

}  // namespace meshbed::coll
