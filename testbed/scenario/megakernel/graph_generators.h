#pragma once
// GraphGenerators: slot graphs of programs whose slots are not a collective's plan.
//
//   moe, with a routing          each token goes to the ranks of its experts (a message for each source and expert that
//                                has any), each expert computes for as long as its tokens need, results go back and are
//                                added up
//   task_graph                   `layers` steps of `parts` tasks a rank; a task needs its own of the step before, and
//                                one of the next rank, whose result it gets as a message

#include <cstdint>
#include <string>
#include <vector>

#include "plugin/base/result.h"
#include "testbed/scenario/megakernel/slot_graph.h"
#include "testbed/scenario/scenario.h"

namespace meshbed::testbed {

/// As `routing` in a scenario: drawn, not read.
constexpr const char* kRandomRouting = "random";

/// [token] the experts that it goes to, in ascending order.
struct Routing {
  std::size_t experts = 0;
  std::vector<std::vector<std::size_t>> tokens;
};

/// A line a token, a score for each expert, separated by commas or blanks; '#' begins a comment. Of each line the
/// `top_k` highest scores count, ties by the lower expert; 0: all that are not 0. Errors name file, line and column.
Result<Routing> parse_routing(const std::string& text, const std::string& path, int top_k);

/// For each of `tokens` tokens `top_k` experts, each set of them as likely as any other: what a balanced gate does on
/// average, and what DeepEP's and NCCL EP's benchmarks draw. 1 <= top_k <= experts.
Routing random_routing(std::size_t tokens, std::size_t experts, std::size_t top_k, std::uint64_t seed);

/// Whether the program is one of a generator.
bool is_generated_graph(const Megakernel& settings);
/// The workload's program for so many ranks; a routing matrix is looked for beside `scenario_path`, a random routing
/// comes from `seed`. Errors name the key of [workload.megakernel] that is wrong.
Result<SlotGraph> generate_slot_graph(const Workload& workload, int ranks, const std::string& scenario_path,
                                      std::uint64_t seed);

}  // namespace meshbed::testbed
