#pragma once
// MicroVms: a cluster as one QEMU virtual machine a node, from power on to the last exit code.
//
// Every node boots Debian's kernel over the host's own file system (read-only, writes stay in the guest's memory), with
// one virtio NIC and one soft-RoCE device for each end of a cable. The host's network is not touched and root is not
// needed. A node's job folder is the same folder, at the same path, on both sides; all else that a guest writes is
// lost.
//
// One owner, one thread: it calls everything but request_stop(), and must live as long as the object (the virtual
// machines die with the thread that started them, so that nothing can be left over).

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "emu/cluster.h"
#include "emu/image/boot_image.h"
#include "emu/microvm/accelerator.h"
#include "emu/outcome.h"
#include "emu/shaping.h"
#include "emu/stop_event.h"

namespace meshbed::emu {

struct MicroVmOptions {
  BootImage image;
  Accelerator accelerator;
  std::string work_dir;       // where the run's folder is made; empty: the system's folder for temporary files
  bool keep_folder = false;   // leave the run's folder when the object goes
  double time_limit_s = 300;  // from start() to the last exit code, and
  double commands_s = 0;      // from when the commands were let go; 0: no limit of its own
  /// A node passed a mark; called by start(), advance() and wait().
  std::function<void(const std::string& node, const Mark& mark)> on_progress;
};

class MicroVms final : public Stoppable {
 public:
  /// Throws std::runtime_error where the cluster cannot be emulated here, be it for want of memory.
  MicroVms(EmuCluster cluster, MicroVmOptions options);
  /// stop(), then removes the folder.
  ~MicroVms() override;
  MicroVms(const MicroVms&) = delete;
  MicroVms& operator=(const MicroVms&) = delete;

  /// Starts all nodes and returns while they boot. Throws std::runtime_error where QEMU does not start; nothing is
  /// left.
  void start();
  /// Serves the nodes for so long, or until all is over: then true. When all nodes are ready, it lets their commands
  /// begin. Between two calls the caller may inject faults.
  bool advance(double seconds);
  /// advance() to the end; what became of it.
  ClusterOutcome wait();
  /// As wait() gives it, at any time.
  ClusterOutcome outcome() const;
  /// Kills what still runs.
  void stop();
  /// Makes advance() and wait() stop() and return soon. For signal handlers and other threads.
  void request_stop() noexcept override;

  /// All nodes are ready, their commands were let go; seconds since start(), 0: not yet.
  double ready_s() const;

  /// The terminal of a running node that has one: a stream socket, whose bytes are those of a serial line. Read it
  /// while the node runs, or the shell on it waits. -1: the node has none. Throws as set_link() does.
  int terminal(const std::string& node) const;

  // Faults; names as in the cluster. They throw std::runtime_error where the node is not running (or its QEMU refuses)
  // and std::out_of_range for a name that the cluster does not have.
  /// Plugs a NIC's cable out or in at this end; the other end's link stays up, as its own cable is in.
  void set_link(const std::string& node, const std::string& netdev, bool up);
  /// What the NIC's interface does to the packets that it sends, from now on (tc-netem(8)). Returns when the guest has
  /// done it; throws std::runtime_error with its words where it has not within 30 s. Nothing on a node that is done.
  void shape(const std::string& node, const std::string& netdev, const Shaping& shaping);
  /// The NIC's interface loses `from` and gets `to` ("192.168.100.77/24"), as ip-address(8) does it; the kernel's GID
  /// table follows by itself. Returns and throws as shape() does.
  void change_address(const std::string& node, const std::string& netdev, const std::string& from,
                      const std::string& to);
  /// Freezes the guest's processors and lets them go on.
  void stop_vm(const std::string& node);
  void continue_vm(const std::string& node);
  /// As if the power went. Its end is kKilled, unless it was done before.
  void kill_vm(const std::string& node);

  /// The run's folder, with one job folder a node.
  const std::string& folder() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace meshbed::emu
