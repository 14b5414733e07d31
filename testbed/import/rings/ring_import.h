#pragma once
// RingImport: slot graphs (testbed/scenario/megakernel/slot_graph.h) from what other runtimes and profilers write.
//
//   task graph   the JSON of Mirage's persistent kernel (MPK), one file a GPU: all_tasks, all_events, first_tasks
//                (mirage-project/mirage, src/kernel/runtime.cc, print_task_graph)
//   kernels      the kernels of each rank with their times: PyTorch's profiler, or any trace in Chrome's JSON format
//                with events of category "kernel"; or `nsys stats --report cuda_gpu_trace --format csv`
//
// All functions throw std::runtime_error with the file, where in it the fault is, and what helps.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "testbed/base/units.h"
#include "testbed/scenario/megakernel/slot_graph.h"

namespace meshbed::testbed::rings {

/// The text of one file, and the name that errors give it.
struct ImportText {
  std::string path, text;
};

/// Throws std::runtime_error: "PATH: WHAT".
[[noreturn]] void refuse(const std::string& path, const std::string& what);

struct ImportedGraph {
  SlotGraph graph{};
  std::uint64_t element_bytes = 2;   // of the elements that its reductions add up
  std::size_t lanes = 8;             // with which what ran at once does so again
  std::vector<std::string> notes{};  // what the graph has only in part, a line each
};

/// Times of task types, by their names without "TASK_" ("LINEAR_SM100") or by number ("253"); "all" for the others.
using TaskTimes = std::map<std::string, Picoseconds>;

/// MPK's task graph: `files` in the order of the GPUs' numbers. A task becomes a compute slot with the time of its
/// type, TASK_NVSHMEM_COPY a put to the GPU of the event that it triggers, an event a slot of no time that needs all of
/// its triggers. Types without a time are an error that lists them with their counts, as is a time of a type that no
/// file has.
ImportedGraph import_task_graph(const std::vector<ImportText>& files, const TaskTimes& times);

/// What a collective's kernel moves; bytes == 0: not known.
struct KernelExchange {
  std::string collective;        // as in collectives.def
  std::uint64_t bytes = 0;       // as nccl-tests counts them for this collective
  std::uint64_t group_size = 0;  // ranks; 0: not known
  std::uint64_t element_bytes = 2;
};

struct TracedKernel {
  std::string name;
  std::string stream{};
  double start_us = 0, duration_us = 0;
  KernelExchange exchange{};  // collective empty: it computes
};

/// What of a trace becomes slots.
struct TraceChoice {
  std::string step;                                 // "ProfilerStep#12": what begins within it; empty: everything
  std::map<std::string, std::uint64_t> bytes_of{};  // by collective, for kernels whose bytes the trace does not have
};

/// Whether the text begins as `nsys stats --report cuda_gpu_trace --format csv` does.
bool is_nsys_table(const std::string& text);
/// A rank's kernels in the order of their starts; one list for each device that the file has.
std::vector<std::vector<TracedKernel>> read_kernels(const ImportText& file, const TraceChoice& choice);

/// [rank] their kernels. A kernel needs the one before it on its stream and the one that ended last before it began;
/// the time between them is a slot of its own. A collective that all ranks have in the same order becomes its messages,
/// round a ring of the ranks; others keep their measured time.
ImportedGraph import_kernels(const std::vector<std::vector<TracedKernel>>& ranks, const std::string& path);

/// Settings of a benchmark of expert parallelism (DeepEP's tests/test_low_latency.py, NCCL EP's ep_bench), from its
/// command line or its log.
struct ExpertSettings {
  std::uint64_t ranks = 0;  // 0: the text does not have it
  std::uint64_t tokens = 128, hidden = 7168, top_k = 8, experts = 0;
  std::string benchmark{};               // "DeepEP", "NCCL EP"
  std::string dispatch_dtype{};          // of tokens on their way to experts
  std::uint64_t dispatch_extra = 0;      // bytes beside a token's elements
  bool token_by_token = true;            // each is a message: low-latency kernels
  std::vector<std::string> not_known{};  // options without a meaning here, as they were given
};
ExpertSettings read_expert_settings(const ImportText& file);
/// A scenario with `settings`; `nodes` of one rank each.
std::string expert_scenario(const ExpertSettings& settings, std::uint64_t nodes, const std::string& rate,
                            const std::string& comment);

}  // namespace meshbed::testbed::rings
