#include "plugin/dropin/library.h"

#include <utility>

#include "plugin/base/log.h"

namespace meshbed::dropin {

Outcome invalid_argument(std::string text) { return {ncclInvalidArgument, std::move(text)}; }
Outcome invalid_usage(std::string text) { return {ncclInvalidUsage, std::move(text)}; }

ncclResult_t nccl_code(meshcoll_result result) {
  switch (result) {
    case MESHCOLL_OK:
      return ncclSuccess;
    case MESHCOLL_INVALID_ARGUMENT:
      return ncclInvalidArgument;
    case MESHCOLL_UNSUPPORTED:
      return ncclInvalidUsage;
    case MESHCOLL_SYSTEM:
      return ncclSystemError;
    case MESHCOLL_NET:
    case MESHCOLL_TIMEOUT:
    case MESHCOLL_ABORTED:
      return ncclRemoteError;
    case MESHCOLL_IN_PROGRESS:
      return ncclInProgress;
    case MESHCOLL_INTERNAL:
      break;
  }
  return ncclInternalError;
}

Outcome outcome_of(meshcoll_result result, meshcoll_comm* engine) {
  if (result == MESHCOLL_OK) return {};
  return {nccl_code(result), meshcoll_last_error(engine)};
}

ncclComm_t Library::add(meshcoll_comm* engine) {
  auto comm = std::make_shared<ncclComm>();
  comm->engine = engine;
  comm->rank = meshcoll_rank(engine);
  comm->world = meshcoll_world(engine);
  const std::lock_guard<std::mutex> lock(mutex_);
  const ncclComm_t handle = comm.get();
  comms_[handle] = std::move(comm);
  return handle;
}

CommPointer Library::find(const ncclComm* comm) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = comms_.find(comm);
  return found != comms_.end() ? found->second : nullptr;
}

CommPointer Library::remove(const ncclComm* comm) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = comms_.find(comm);
  if (found == comms_.end()) return nullptr;
  CommPointer removed = std::move(found->second);
  comms_.erase(found);
  return removed;
}

Group* Library::group() {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = groups_.find(std::this_thread::get_id());
  return found != groups_.end() ? &found->second : nullptr;
}

Group& Library::open_group() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return groups_[std::this_thread::get_id()];
}

void Library::close_group() {
  const std::lock_guard<std::mutex> lock(mutex_);
  groups_.erase(std::this_thread::get_id());
}

ncclResult_t Library::tell(const char* call, const Outcome& outcome) {
  if (outcome.well()) return ncclSuccess;
  MESHBED_WARN("%s: %s", call, outcome.text.c_str());
  keep(std::string(call) + ": " + outcome.text);
  return outcome.code;
}

ncclResult_t Library::refuse(const char* call, const std::string& why) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (refused_.insert(call).second) MESHBED_WARN("%s is not supported: %s", call, why.c_str());
  }
  keep(std::string(call) + " is not supported: " + why);
  return ncclInvalidUsage;
}

void Library::keep(const std::string& text) {
  const std::lock_guard<std::mutex> lock(mutex_);
  last_ = &*texts_.insert(text).first;
}

const char* Library::last_error() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return last_ != nullptr ? last_->c_str() : "";
}

Library& library() {
  // Never destroyed: threads of the program may call until the process has ended.
  static auto* own = new Library;
  return *own;
}

}  // namespace meshbed::dropin
