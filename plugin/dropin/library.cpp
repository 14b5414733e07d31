#include "plugin/dropin/library.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "plugin/base/log.h"
#include "plugin/dropin/group.h"

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
  comm->profiling = Profiling::of(engine);
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

Library::Library()
    : has_key_(pthread_key_create(&group_key_, [](void* group) {
                 const std::unique_ptr<Group> left(static_cast<Group*>(group));
                 abandon(*left);
               }) == 0) {}

Group* Library::group() { return has_key_ ? static_cast<Group*>(pthread_getspecific(group_key_)) : nullptr; }

Group* Library::open_group() {
  if (Group* open = group(); open != nullptr || !has_key_) return open;
  auto opened = std::make_unique<Group>();
  return pthread_setspecific(group_key_, opened.get()) == 0 ? opened.release() : nullptr;
}

Group Library::close_group() {
  const std::unique_ptr<Group> closed(group());
  pthread_setspecific(group_key_, nullptr);
  return std::move(*closed);
}

void Library::tell(const char* call, const char* text) {
  MESHBED_WARN("%s: %s", call, text);
  keep(call, ": ", text);
}

void Library::tell_unsupported(const char* call, const char* why) {
  keep(call, " is not supported: ", why);
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto place = std::find_if(unsupported_.begin(), unsupported_.end(),
                                  [&](const char* told) { return told == nullptr || std::strcmp(told, call) == 0; });
  if (place == unsupported_.end() || *place != nullptr) return;
  *place = call;
  MESHBED_WARN("%s is not supported: %s", call, why);
}

void Library::keep(const char* call, const char* between, const char* text) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::snprintf(last_.data(), last_.size(), "%s%s%s", call, between, text);
}

const char* Library::last_error() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return texts_.keep(last_.data());
}

Library& library() {
  static auto* own = new Library;
  return *own;
}

}  // namespace meshbed::dropin
