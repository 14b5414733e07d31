// Objects of the program's that live as long as graphs refer to them (cuUserObject*, cuGraphRetainUserObject). Their
// destructors run on the driver's thread for host functions.

#include <climits>

#include "sim/cuda/graph/nodes.h"
#include "sim/cuda/runtime.h"

namespace meshbed::sim::cuda {
namespace {

bool is_count(unsigned count) { return count > 0 && count <= static_cast<unsigned>(INT_MAX); }

/// `count` references fewer; false: there are not as many. `object`: one that find_object() has found.
bool take(UserObjects& objects, const UserObject* object, unsigned count) {
  const auto found = objects.find(object);
  if (found == objects.end() || found->second.count < count) return false;
  found->second.count -= count;
  if (found->second.count == 0) objects.erase(found);
  return true;
}

/// From any of its holders: the program, or one of its graphs.
std::shared_ptr<UserObject> find_object(const Driver& driver, const UserObject* object) {
  const auto found = driver.all_user_objects.find(object);
  return found != driver.all_user_objects.end() ? found->second.lock() : nullptr;
}

void give(UserObjects& objects, const std::shared_ptr<UserObject>& object, unsigned count) {
  UserReferences& references = objects[object.get()];
  references.object = object;
  references.count += count;
}

}  // namespace

UserObject::UserObject(Driver& of, CUhostFn function, void* argument)
    : driver(of), id(system().next_id++), destroy(function), data(argument), system_lives(system().lives) {}

UserObject::~UserObject() {
  if (system_lives.expired()) return;
  driver.all_user_objects.erase(this);
  if (driver.contexts.empty()) {
    host().outside([this] { destroy(data); });
    return;
  }
  release(make_work(*driver.contexts.front(), HostCall{.function = destroy, .data = data}, 0));
}

CUresult cuUserObjectCreate(UserObject** object, void* data, CUhostFn destroy, unsigned count, unsigned flags) {
  constexpr unsigned kNoDestructorSync = 1;  // the only value, and required
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  if (object == nullptr || destroy == nullptr || !is_count(count) || flags != kNoDestructorSync) return kInvalidValue;
  const std::shared_ptr<UserObject> made(new UserObject(*caller.driver, destroy, data));  // as HandleMemory has it
  give(caller.driver->user_objects, made, count);
  caller.driver->all_user_objects[made.get()] = made;
  *object = made.get();
  return kSuccess;
}

CUresult cuUserObjectRetain(UserObject* object, unsigned count) {
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  const auto found = find_object(*caller.driver, object);
  if (found == nullptr || !is_count(count)) return kInvalidValue;
  give(caller.driver->user_objects, found, count);
  return kSuccess;
}

CUresult cuUserObjectRelease(UserObject* object, unsigned count) {
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  if (find_object(*caller.driver, object) == nullptr || !is_count(count)) return kInvalidValue;
  return take(caller.driver->user_objects, object, count) ? kSuccess : kInvalidValue;
}

CUresult cuGraphRetainUserObject(Graph* handle, UserObject* object, unsigned count, unsigned flags) {
  constexpr unsigned kMove = 1;
  return with_graph(handle, [&](const Caller& caller, Graph& graph) -> CUresult {
    UserObjects& own = caller.driver->user_objects;
    const auto found = find_object(*caller.driver, object);
    if (found == nullptr || !is_count(count) || flags > kMove) return kInvalidValue;
    if (flags == kMove && !take(own, object, count)) return kInvalidValue;
    give(graph.objects, found, count);
    return kSuccess;
  });
}

CUresult cuGraphReleaseUserObject(Graph* handle, UserObject* object, unsigned count) {
  return with_graph(handle, [&](const Caller& caller, Graph& graph) -> CUresult {
    if (find_object(*caller.driver, object) == nullptr || !is_count(count)) return kInvalidValue;
    return take(graph.objects, object, count) ? kSuccess : kInvalidValue;
  });
}

CUresult cudaUserObjectCreate(UserObject** object, void* data, CUhostFn destroy, unsigned count, unsigned flags) {
  return in_runtime([&] { return cuUserObjectCreate(object, data, destroy, count, flags); });
}
CUresult cudaUserObjectRetain(UserObject* object, unsigned count) {
  return in_runtime([&] { return cuUserObjectRetain(object, count); });
}
CUresult cudaUserObjectRelease(UserObject* object, unsigned count) {
  return in_runtime([&] { return cuUserObjectRelease(object, count); });
}
CUresult cudaGraphRetainUserObject(Graph* graph, UserObject* object, unsigned count, unsigned flags) {
  return in_runtime([&] { return cuGraphRetainUserObject(graph, object, count, flags); });
}
CUresult cudaGraphReleaseUserObject(Graph* graph, UserObject* object, unsigned count) {
  return in_runtime([&] { return cuGraphReleaseUserObject(graph, object, count); });
}

}  // namespace meshbed::sim::cuda
