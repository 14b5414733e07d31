#pragma once
// Probe: what this machine has for emulated nodes, and what it lacks. Changes nothing.

#include <string>
#include <vector>

#include "emu/cluster.h"
#include "emu/microvm/accelerator.h"

namespace meshbed::emu {

/// KVM where it works, TCG elsewhere.
///
/// That /dev/kvm opens is no proof: where the machine is itself a guest of a PVM hypervisor (/sys/module/kvm_pvm), its
/// KVM runs only kernels that know PVM at speed. Debian's does not, and is interpreted: slower than TCG by far
/// (measured: no first line of the kernel in 120 s, against 2 s).
Accelerator probe_accelerator();

/// One thing that emulated nodes need.
struct Part {
  std::string what;  // "qemu-system-x86_64"
  bool present = false;
  std::string detail;  // where it was found, or what to do
};

/// All parts, present or not, in the order in which they are needed. Runs apt-cache where no image is in the cache.
std::vector<Part> look_at_parts();

/// Throws std::runtime_error where virtual machines of this cluster cannot run here, for want of a program or of
/// memory: the first that is missing, and what to do. To be asked before a kernel is downloaded for nothing.
void require_machine_for(const EmuCluster& cluster, bool kvm);

/// MiB that the host's kernel has available now; a very large number if that is unknown.
int available_memory_mib();

/// MiB that QEMU takes for a node (measured: the guest's memory and 100 MiB of QEMU's own, translated code included).
int memory_need_mib(const EmuNode& node, bool kvm);

/// Throws std::runtime_error where the nodes need more than `available_mib`: which nodes, what they need, what is
/// there.
void check_memory(const EmuCluster& cluster, bool kvm, int available_mib);

}  // namespace meshbed::emu
