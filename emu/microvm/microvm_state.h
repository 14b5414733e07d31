#pragma once
// The inside of MicroVms: one Vm a node. Read emu/microvm/microvm.h first.

#include <sys/types.h>

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "emu/microvm/microvm.h"
#include "emu/microvm/monitor.h"
#include "emu/scratch.h"
#include "emu/stop_event.h"
#include "plugin/base/deadline.h"
#include "plugin/base/descriptor.h"

namespace meshbed::emu {

/// One QEMU. The hubs' QEMU is one too, without a node.
struct Vm {
  std::string name;
  std::string folder;   // the job folder; the run's folder for the hubs
  pid_t process = -1;   // -1: not running
  Descriptor console;   // closed: QEMU closed it
  Descriptor terminal;  // where the node has one
  Descriptor console_log;
  std::unique_ptr<Monitor> monitor;
  std::string line;        // of the console, up to now
  std::map<int, int> did;  // exit codes of the host's commands, by number
  std::vector<Mark> marks;
  bool ready = false;
  bool over = false;  // its end is known; a node that is done still runs
  NodeEnd end = NodeEnd::kStopped;
  std::string trouble;  // why it failed
  int memory_mib = 0;
};

struct MicroVms::State {
  State(EmuCluster cluster_in, MicroVmOptions options_in);

  // ---- start and end of QEMUs (microvm.cpp)
  void start();
  void kill(Vm& vm, NodeEnd end);
  void kill_all(NodeEnd end);
  Vm& running(const std::string& node);
  void order(Vm& vm, const std::vector<std::string>& command);
  // ---- serving them (microvm_serve.cpp)
  bool advance(double seconds);
  void read_console(Vm& vm);
  void take_line(Vm& vm, std::string line);
  void take_mark(Vm& vm, const std::string& text);
  void console_closed(Vm& vm);
  void let_commands_begin();
  void give_up(const Vm& because);
  double time_left_s() const;
  void time_out();
  bool all_over() const;
  // ---- what became of them (microvm_outcome.cpp)
  ClusterOutcome outcome() const;
  NodeOutcome outcome_of(std::size_t index) const;
  std::string console_end(const Vm& vm) const;

  double since_start_s() const { return started_s == 0 ? 0 : now_s() - started_s; }

  EmuCluster cluster;
  MicroVmOptions options;
  Scratch scratch;
  StopEvent stop_event;
  std::vector<Vm> vms;  // by node
  std::optional<Vm> hub;
  double started_s = 0;
  double ready_s = 0;
  double total_s = 0;
  std::vector<std::string> troubles;
  int orders = 0;  // given so far
};

}  // namespace meshbed::emu
