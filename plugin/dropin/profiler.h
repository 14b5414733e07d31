#pragma once
// The drop-in's side of NCCL's profiler plugins: what a program calls, and how the engine carries it out, is announced
// as NCCL announces it. NCCL_PROFILER_PLUGIN names the plugin (plugin/base/plugin_file.h); "none", or not set: none.

#include <memory>

#include "plugin/coll/meshcoll.h"
#include "plugin/nccl/profiler_abi.h"

namespace meshbed::dropin {

/// One communicator's context with the process's profiler.
class Profiling {
 public:
  /// nullptr where there is no profiler; one that does not load, or does not begin, is a WARN, once.
  static std::unique_ptr<Profiling> of(meshcoll_comm* engine);
  ~Profiling();
  Profiling(const Profiling&) = delete;
  Profiling& operator=(const Profiling&) = delete;

  /// A call that the engine has taken: of a collective the call and the decision, of a message its two halves.
  /// `algorithm` and `protocol` are the engine's names (meshcoll_plan), in small letters as nothing of NCCL's is.
  void announce(const meshcoll_args& args) const;

 private:
  Profiling(const nccl::Profiler& profiler, meshcoll_comm* engine) : profiler_(profiler), engine_(engine) {}
  void announce(nccl::ProfilerEvent event) const;

  const nccl::Profiler& profiler_;
  meshcoll_comm* const engine_;
  bool has_begun_ = false;
  void* context_ = nullptr;  // the profiler's own
  int events_ = 0;           // those that it wants
};

}  // namespace meshbed::dropin
