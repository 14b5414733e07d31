#pragma once
// Gates: what a class must have in common with a measured file before it may stand for the file's class, read from the
// file's header and rows.
//
// Rule: the same transport (verbs, host-staged verbs, verbs of shared memory, EFA, TCPX, TCP, Slingshot; within one
// node NVLink, xGMI, PCIe, PCIe without peer-to-peer), one node or several, the same cabling, the same library (NCCL
// with RCCL, MPI, libsircl, one-shot kernels, MSCCL++, perftest, UCX, OSU), within a node the same launch (from a CUDA
// graph or not), of messages the same posting (one by one or in lists), and rates within a factor of two.

#include <optional>
#include <string>

#include "models/time/machine.h"
#include "testbed/fidelity/measured_file.h"

namespace meshbed::testbed {

struct Gates {
  models::MachineTransport transport = models::MachineTransport::kNone;  // kNone: not stated
  std::string link;     // within one node: NVLink, xGMI, PCIe, "PCIe without peer-to-peer"
  std::string plugin;   // TCPX or TCPXO, whose hops differ tenfold
  std::string library;  // nccl, mpi, sircl, oneshot, mscclpp, perftest, ucx, osu, rdma
  models::Cabling cabling = models::Cabling::kSwitch;
  bool is_infiniband = false;   // headers of a packet
  bool is_replayed = false;     // from a CUDA graph, which saves most of a launch; only within a node, where it shows
  bool is_listed = false;       // messages posted in lists (perftest's -l), which share a doorbell
  bool is_copied = false;       // EFA without GPUDirect: by way of the host's memory
  std::optional<double> gbits;  // of all adapters of a node
  std::optional<double> adapters;   // of a node
  std::optional<double> link_GBps;  // of one GPU, one direction, within its node
  int ranks_per_node = 1;

  /// "verbs, several nodes, nccl, 400 Gb/s a node".
  std::string text() const;
};

/// Of a row, by its file's class, and by the set-up where the class does not state it.
Gates gates_of(const MeasuredFile& file, const MeasuredRow& row);
Gates gates_of(const models::Machine& machine);

/// The links of one GPU to the others of its node.
struct GpuLinks {
  std::string gpu;  // as its name stands in the text, in lower case
  double GBps = 0;  // one direction, by its maker's data sheet
};
/// Of the first GPU that is known among the text's words.
std::optional<GpuLinks> links_of_gpu(const std::string& text);

/// Whether one that passes is also near: rates and links within a quarter, ranks a node within a factor of two. Of
/// classes that are not, files left out show that what all classes of the transport have in common predicts better
/// (median 16 % against 29 %).
bool is_near(const Gates& wanted, const Gates& has);

/// Why a class with `has` may not stand for a file with `wanted`: "one node, not several"; empty: it may.
std::string gate_failure(const Gates& wanted, const Gates& has);

}  // namespace meshbed::testbed
