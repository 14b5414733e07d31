#pragma once
// NamespaceHost: carries out a NamespacePlan on this machine, remembers it, and puts everything back.
//
// The state is one file, FOLDER/emu-down.sh (emu/namespace/namespace_plan.h): the way back, written before the first
// change and removed after the last is undone. A process that is killed in between leaves it, and the next one runs it
// first. All of this needs root.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "emu/microvm/probe.h"
#include "emu/namespace/namespace_plan.h"
#include "plugin/base/descriptor.h"

namespace meshbed::emu {

inline constexpr const char* kNamespaceFolder = "/run/meshbed";

struct NamespaceState {
  bool complete = false;  // else a set-up was broken off
  std::string digest, owner, layout, title;
  std::string text;  // of the whole file: the commands that take it down
};

/// What is set up, wholly or in part; nullopt: nothing. Needs no root.
std::optional<NamespaceState> read_namespace_state(const std::string& folder = kNamespaceFolder);

/// Held while something is set up, taken down or used; the kernel lets go of it with the process.
class NamespaceLock {
 public:
  /// Throws std::runtime_error where another process holds it.
  NamespaceLock();

 private:
  Descriptor socket_;  // bound to a name that only one can have (unix(7), abstract)
};

/// Throws std::runtime_error where the user is not root.
void require_root();

/// What this kernel can do, found out by trying: with a network namespace, a veth pair and a soft-RoCE device in it,
/// gone when it returns. Kernels whose soft-RoCE is bound to the initial namespace have no UDP socket for port 4791 in
/// others.
NamespaceLayout probe_layout();

/// Carries out the plan's steps; an earlier set-up is taken down first. `stop` is called before each step. Throws
/// std::runtime_error, one line, if the plan would disturb something on the host, or if a command fails (with the
/// command and its output); then all is put back.
void set_up(const NamespacePlan& plan, const std::function<bool()>& stop);

/// Whether it is set up as planned: runs the plan's checks if the state file contains this plan.
bool is_set_up(const NamespacePlan& plan);

/// Runs the state file's way back; false: nothing was set up. Throws std::runtime_error with the commands that failed;
/// the state then stays.
bool take_down(const std::string& folder = kNamespaceFolder);

/// What namespaces need here, like look_at_parts(). Changes nothing.
std::vector<Part> look_at_namespace_parts();

}  // namespace meshbed::emu
