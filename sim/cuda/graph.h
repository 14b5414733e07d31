#pragma once
// Graphs: works that were recorded instead of done, to be done as often as one likes.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "sim/cuda/handle_memory.h"
#include "sim/cuda/work.h"

namespace meshbed::sim::cuda {

struct Driver;
struct Graph;

/// An object of the program that is destroyed with its last reference (cuUserObjectCreate). The program, graphs and
/// their executables hold references; each counts its own.
struct UserObject : HandleMemory<UserObject> {
  UserObject(Driver& of, CUhostFn function, void* argument);
  ~UserObject();
  UserObject(const UserObject&) = delete;
  UserObject& operator=(const UserObject&) = delete;
  Driver& driver;
  const std::uint64_t id;  // in the order in which they were made
  CUhostFn destroy;
  void* data;
  std::weak_ptr<int> system_lives;
};
struct UserReferences {
  std::shared_ptr<UserObject> object{};
  unsigned count = 0;
};
/// By when they were made, so that those which end together are destroyed in the same order each time.
struct MadeBefore {
  bool operator()(const UserObject* one, const UserObject* other) const { return one->id < other->id; }
};
using UserObjects = std::map<const UserObject*, UserReferences, MadeBefore>;

/// What a graph's node gives. It has its place as long as the graph or what was made ready of it is there; where the
/// program has not freed it until then, it is memory as any other.
struct GraphMemory {
  GraphMemory(Driver& of, CUdeviceptr place);
  static std::shared_ptr<GraphMemory> of(Driver& driver, CUdeviceptr place);
  ~GraphMemory();
  GraphMemory(const GraphMemory&) = delete;
  GraphMemory& operator=(const GraphMemory&) = delete;
  Driver& driver;
  CUdeviceptr address;
  std::uint64_t id;  // of the allocation
  std::weak_ptr<int> system_lives;
};

struct GraphNode {
  // No base: it is made of a list of its members.
  static void* operator new(std::size_t bytes) { return HandleMemory<GraphNode>::operator new(bytes); }
  static void operator delete(void* place) { HandleMemory<GraphNode>::operator delete(place); }
  Task task;
  std::vector<std::size_t> before{};     // indices of nodes that must end first
  int memory = 0;                        // 1: here its memory begins, 2: here it ends; the task is a marker then
  CUdeviceptr address = 0;               // of that memory
  Event* recorded = nullptr;             // the node records it; the task is a marker then
  Event* awaited = nullptr;              // and likewise here it is waited for
  std::shared_ptr<Graph> child{};        // a whole graph stands here; the task is a marker then
  const GraphNode* original = nullptr;   // in a clone: the node that it was made of
  bool of_stream = false;                // a stream recorded it
  bool enabled = true;                   // in an executable; else it does nothing
  std::vector<void*> arguments{};        // what cuGraphKernelNodeGetParams shows
  std::uint64_t id = 0;                  // in an executable: of the graph's node; 0: the end of a child
  std::shared_ptr<GraphMemory> gives{};  // where its memory begins
};
struct Graph : HandleMemory<Graph> {
  std::vector<std::unique_ptr<GraphNode>> nodes;
  UserObjects objects{};
  std::weak_ptr<int> ready{};  // what was made ready of it last
};

/// A graph made ready. What graphs stand in it stands in line, each between two markers.
struct GraphExec : HandleMemory<GraphExec> {
  std::vector<GraphNode> nodes;
  std::vector<const GraphNode*> origins;  // the graph's nodes that they were made of; nullptr: the end of a child
  std::vector<std::size_t> inside;        // of a child's first marker: how many nodes follow before the second one
  std::vector<std::size_t> events;        // nodes that record or wait, each behind those that come before it
  unsigned long long flags = 0;
  UserObjects objects{};  // of the graph; a child's are those of its first marker's child, which has nothing else
  WorkRef last;           // the end of the last launch, which the next one comes after
  std::shared_ptr<int> lives = std::make_shared<int>();
};

/// cuda.h's CUstreamCaptureMode: whose calls are refused while a stream records.
enum CaptureMode : int { kGlobalMode, kThreadLocalMode, kRelaxedMode };

/// One recording: what its streams were given, from cuStreamBeginCapture to cuStreamEndCapture.
struct Capture {
  std::unique_ptr<Graph> graph = std::make_unique<Graph>();
  Stream* origin = nullptr;
  bool invalid = false;
  int mode = 0;  // kGlobalMode and its like
  std::uint64_t id = 0;
  ThreadKey begun = nullptr;              // by which thread
  std::vector<const GraphNode*> shown{};  // returned by the last query of nodes
};

}  // namespace meshbed::sim::cuda
