#pragma once
// ClusterOutcome: what became of a run in emulated nodes.

#include <optional>
#include <string>
#include <vector>

namespace meshbed::emu {

struct CommandOutcome {
  std::optional<int> exit_code;  // none: it did not end
  std::string stdout_path;
  std::string stderr_path;
};

/// A mark that a guest printed on its console: "READY", "EXIT 0 1", "DONE rc=0". Wall time of the host.
struct Mark {
  std::string text;
  double at_s = 0;  // since start()
};

enum class NodeEnd {
  kDone,      // its commands ended, all results are there; it stayed up until all nodes were done
  kFailed,    // the guest could not be made ready, or QEMU ended by itself
  kTimedOut,  // the time limit came first
  kKilled,    // by kill_vm()
  kStopped,   // by stop(), or because another node could not be made ready
};

struct NodeOutcome {
  std::string name;
  NodeEnd end = NodeEnd::kStopped;
  std::optional<int> exit_code;  // of the first command that failed, else 0; none: not all commands ended
  std::vector<CommandOutcome> commands;
  std::optional<int> terminal_exit_code;  // of the shell on its terminal; none: there is none, or it did not end
  std::vector<Mark> marks;
  std::string folder;        // the job folder: what the commands wrote there
  std::string console_path;  // the kernel's words and the marks
  std::string dmesg_path;    // written at the end
  int memory_mib = 0;        // what QEMU took at most; 0: not known
};

struct ClusterOutcome {
  std::vector<NodeOutcome> nodes;
  std::vector<std::string>
      troubles;        // one line each: the node, what happened, the end of the console; empty if all is done
  double ready_s = 0;  // from start() until every node was ready; 0: never
  double total_s = 0;

  /// Every node is done and every command gave 0.
  bool succeeded() const {
    for (const NodeOutcome& node : nodes) {
      if (node.end != NodeEnd::kDone || node.exit_code != 0) return false;
    }
    return true;
  }
};

}  // namespace meshbed::emu
