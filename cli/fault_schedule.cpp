#include "cli/fault_schedule.h"

#include <fmt/format.h>

#include <iterator>

#include "plugin/base/prng.h"

namespace meshbed::cli {
namespace {

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : prng_(mix64(seed ^ 0x6661756c7473ULL)) {}
  int between(int least, int most) {
    return least + static_cast<int>(prng_.below(static_cast<std::uint64_t>(most - least + 1)));
  }
  template <typename T, std::size_t N>
  T one_of(const T (&choices)[N]) {
    return choices[prng_.below(N)];
  }

 private:
  Prng prng_;
};

struct Cluster {
  int nodes = 2;
  int rails = 1;
};

std::string cable(Draw& draw, const Cluster& cluster) {
  const int first = cluster.nodes == 2 ? 0 : draw.between(0, cluster.nodes - 1);
  const int rail = draw.between(0, cluster.rails - 1);
  const std::string name = fmt::format("node{}-node{}", first, (first + 1) % cluster.nodes);
  return rail == 0 ? name : fmt::format("{}-rail{}", name, rail);
}

/// A [[fault]] that ends, between two iterations or within one.
std::string fault(Draw& draw, const Cluster& cluster, int iterations) {
  static constexpr const char* kKinds[] = {"cable_down", "cable_down", "cable_down", "cable_down", "node_stop",
                                           "loss",       "delay",      "reorder",    "rate"};
  const std::string kind = draw.one_of(kKinds);
  std::string text = fmt::format("\n[[fault]]\nkind = \"{}\"\n", kind);
  text += kind == "node_stop" ? fmt::format("target = \"node{}\"\n", draw.between(0, cluster.nodes - 1))
                              : fmt::format("target = \"{}\"\n", cable(draw, cluster));
  text += fmt::format("point = \"iteration\"\niteration = {}\n", draw.between(0, iterations - 1));
  // Within the moments in which messages are under way, and now and then between them.
  text += fmt::format("at = \"{}ns\"\n", draw.between(0, 3) == 0 ? 0 : draw.between(1, 400'000));
  // Shorter than the retries, and longer.
  const int about_us = draw.one_of({10, 300, 5'000, 20'000, 80'000});
  text += fmt::format("duration = \"{}us\"\n", about_us + draw.between(0, 500));
  if (kind == "loss" || kind == "reorder") text += fmt::format("amount = {}\n", draw.one_of({0.001, 0.02, 0.2}));
  if (kind == "delay") text += fmt::format("amount = \"{}us\"\n", draw.between(1, 500));
  if (kind == "rate") text += fmt::format("amount = \"{}Gb/s\"\n", draw.between(1, 50));
  return text;
}

}  // namespace

std::string fault_schedule(std::uint64_t seed) {
  // One draw a statement: the order of a call's arguments is the compiler's choice, and a schedule must not be.
  Draw draw(seed);
  static constexpr Cluster kClusters[] = {{2, 1}, {2, 2}, {2, 2}, {2, 3}, {3, 1}, {4, 1}};
  const Cluster cluster = draw.one_of(kClusters);
  const int iterations = draw.between(2, 5);
  const int faults = draw.between(1, 4);
  const int channels = draw.between(1, 3);
  const int bytes = draw.one_of({4'096, 65'536, 400'000, 2'000'000});
  const char* collective = draw.one_of({"all_reduce", "all_gather"});
  const int timeout = draw.between(8, 11);
  std::string schedule;
  for (int count = 0; count < faults; ++count) schedule += fault(draw, cluster, iterations);
  const int stripe_bytes = draw.one_of({128, 4'096, 131'072});
  const int queue_pairs = draw.between(1, 2);
  return fmt::format(
      "# meshbed fuzz --faults --print {}\n"
      "seed = {}\n\n"
      "[topology]\nkind = \"ring\"\nnodes = {}\nrails = {}\n\n"
      "[environment]\nNCCL_IB_TIMEOUT = \"{}\"\nNCCL_MESH_STRIPE_BYTES = \"{}\"\n"
      "NCCL_IB_QPS_PER_CONNECTION = \"{}\"\n\n"
      "[workload]\ncollective = \"{}\"\nbytes = {}\niterations = {}\nwarmup = 1\nchannels = {}\n"
      "{}\n[expect]\nwrong = 0\n",
      seed, seed, cluster.nodes, cluster.rails, timeout, stripe_bytes, queue_pairs, collective, bytes, iterations,
      channels, schedule);
}

}  // namespace meshbed::cli
