#pragma once
// NamespaceRun: the commands of a cluster's nodes, as processes of this host, over a cluster that is set up in its
// kernel (emu/namespace/namespace_host.h).
//
// Every command gets a bare environment, as in a virtual machine: PATH, HOME, HOSTNAME and the node's own. Its node's
// folder holds command-K.stdout and command-K.stderr, and is its working directory unless the node sets another one.
//
// One owner, one thread: it calls everything but request_stop() and must live as long as the object (the processes die
// with the thread that started them).

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "emu/cluster.h"
#include "emu/namespace/namespace_plan.h"
#include "emu/outcome.h"
#include "emu/scratch.h"
#include "emu/stop_event.h"
#include "plugin/base/deadline.h"

namespace meshbed::emu {

struct NamespaceRunOptions {
  NamespaceLayout layout = NamespaceLayout::kPolicyRouting;
  double time_limit_s = 300;  // from the first command's start to the last exit code
};

class NamespaceRun final : public Stoppable {
 public:
  /// Makes the nodes' folders below the folder for temporary files; they go with the object.
  explicit NamespaceRun(EmuCluster cluster);

  /// Starts all commands and waits for their ends, the time limit, or a request to stop; then nothing of them runs.
  /// Throws std::runtime_error where a command cannot be started.
  ClusterOutcome run(const NamespaceRunOptions& options);

  void request_stop() noexcept override { stop_.request(); }
  bool stop_requested() const { return stop_.is_requested(); }

 private:
  struct Process {
    std::size_t node = 0;
    int command = 0;
    pid_t id = -1;          // -1: it has ended
    Descriptor descriptor;  // readable: it has ended (pidfd_open(2))
  };

  void start(const NamespaceRunOptions& options, ClusterOutcome& outcome, std::vector<Process>& processes);
  /// Waits for all; why it gave up, nullopt: all ended.
  std::optional<NodeEnd> wait(Deadline deadline, ClusterOutcome& outcome, std::vector<Process>& processes);

  EmuCluster cluster_;
  Scratch scratch_;
  StopEvent stop_;
};

}  // namespace meshbed::emu
