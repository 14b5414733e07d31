#include "cli/bench/bench_ring.h"

// Decoding against memcpy by turns in the same run (a shared machine is faster or slower from one second to the next;
// the share is the median of neighbours), in CPU time; and one slot at a time between two threads, on the wall.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <nlohmann/json.hpp>
#include <ostream>
#include <stdexcept>
#include <thread>
#include <vector>

#include "cli/bench/bench_measure.h"
#include "cli/common/exit_status.h"
#include "cli/common/files.h"
#include "cli/common/json_text.h"
#include "emu/clock.h"
#include "plugin/base/prng.h"
#include "plugin/ring/queue/live_ring.h"
#include "plugin/ring/telemetry/telemetry.h"

namespace meshbed::cli {
namespace {

constexpr std::int64_t kLong_ms = 60'000;

template <typename Work>
double gigabytes_per_s(std::uint64_t bytes, int passes, const Work& work) {
  const double before = cpu_seconds();
  for (int pass = 0; pass < passes; ++pass) work();
  return static_cast<double>(bytes) * passes / (cpu_seconds() - before) / 1e9;
}

nlohmann::json bench_decode(ring::Word slots, int repetitions) {
  std::vector<std::uint8_t> bytes(std::uint64_t{slots} * ring::kSlotBytes), copy(bytes.size());
  Prng prng(1);
  for (std::uint64_t word = 0; word < bytes.size() / ring::kWordBytes; ++word) {
    const bool is_status = word % ring::kSlotWords == 0;
    ring::store_word(bytes.data(), word, static_cast<ring::Word>(is_status ? prng.below(9) : prng.next()));
  }
  std::vector<ring::SlotSnapshot> decoded;
  std::uint64_t depth = 0;
  const auto decode = [&] {
    depth += ring::decode_ring(bytes, ring::kLayout2026_05, decoded)->queue_depth();
    std::atomic_signal_fence(std::memory_order_seq_cst);
  };
  const auto copied = [&] {
    std::memcpy(copy.data(), bytes.data(), bytes.size());
    std::atomic_signal_fence(std::memory_order_seq_cst);
  };
  decode();  // the memory is there from here on
  copied();
  const int passes = std::max<int>(1, static_cast<int>((std::uint64_t{64} << 20U) / bytes.size()));
  std::vector<double> decodes, copies, shares;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    copies.push_back(gigabytes_per_s(bytes.size(), passes, copied));
    decodes.push_back(gigabytes_per_s(bytes.size(), passes, decode));
    shares.push_back(decodes.back() / copies.back());
  }
  if (depth == 0 || decoded.size() != slots) throw std::runtime_error("ring bench: nothing was decoded");
  return {{"slots", slots},
          {"ring_bytes", bytes.size()},
          {"decode_gigabytes_per_cpu_s", median(decodes)},
          {"memcpy_gigabytes_per_cpu_s", median(copies)},
          {"share_of_memcpy", median(shares)},
          {"shares_of_all_repetitions", shares}};
}

nlohmann::json bench_hand_over(int count) {
  auto control = *ring::encode_control(ring::kLayout2026_05, ring::Mode::kSafe, {.tenants = 1});
  auto slots = *ring::encode_empty_ring(1);
  std::vector<double> times_ns;
  std::string error;
  std::thread lane([&] {
    ring::LiveRing ring = *ring::LiveRing::over(control, slots, ring::kLayout2026_05);
    while (const auto claim = ring.claim_within(kLong_ms)) (void)ring.finish(claim->slot);
  });
  ring::LiveRing ring = *ring::LiveRing::over(control, slots, ring::kLayout2026_05);
  for (int index = 0; index < count && error.empty(); ++index) {
    const std::int64_t before_ns = emu::now_ns();
    Result<void> done = ring.publish({.opcode = ring::opcode::kUserFirst});
    if (done) done = ring.done_within(0, kLong_ms);
    times_ns.push_back(static_cast<double>(emu::now_ns() - before_ns));
    if (!done) error = done.error().text;
  }
  ring.shut_down();
  lane.join();
  if (!error.empty()) throw std::runtime_error("ring bench: " + error);
  std::sort(times_ns.begin(), times_ns.end());
  return {{"slots", count},
          {"processors", std::thread::hardware_concurrency()},
          {"median_ns", median(times_ns)},
          {"p99_ns", times_ns[times_ns.size() * 99 / 100]}};
}

}  // namespace

int ring_bench_command(const Arguments& arguments, std::ostream& out, std::ostream&) {
  namespace po = boost::program_options;
  Syntax syntax("ring bench [options]");
  std::string slots_text = "1048576", repetitions_text = "15", hand_overs_text = "200000", keep;
  bool json = false;
  syntax.options.add_options()  //
      ("slots", po::value(&slots_text)->value_name("N")->default_value(slots_text),
       "in the larger ring that is decoded; the smaller has 1024")  //
      ("repetitions", po::value(&repetitions_text)->value_name("N")->default_value(repetitions_text),
       "of the decoding, with a memcpy before each")  //
      ("hand-overs", po::value(&hand_overs_text)->value_name("N")->default_value(hand_overs_text),
       "slots from one thread to another and back")                                                               //
      ("keep", po::value(&keep)->value_name("FILE"), "also write the result, with its provenance, to this file")  //
      ("json", po::bool_switch(&json), "print JSON instead of the table");
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;
  const auto slots = static_cast<ring::Word>(parse_count("--slots", slots_text, 1, ring::kSlotsMostEncoded));
  const auto repetitions = static_cast<int>(parse_count("--repetitions", repetitions_text, 1, 1000));
  const auto hand_overs = static_cast<int>(parse_count("--hand-overs", hand_overs_text, 1, 100'000'000));
  nlohmann::json decodes = nlohmann::json::array();
  for (const ring::Word count : {ring::Word{1024}, slots}) decodes.push_back(bench_decode(count, repetitions));
  const nlohmann::json result = {{"benchmark", "ring"},
                                 {"decode", decodes},
                                 {"publish_claim_done", bench_hand_over(hand_overs)},
                                 {"provenance", bench_provenance()}};
  if (!keep.empty()) write_text_file(keep, json_text(result, kIndent) + "\n");
  if (json) {
    out << json_text(result, kIndent) << "\n";
    return kExitOk;
  }
  out << "  slots   decode GB/s   memcpy GB/s   share  (CPU time; wanted: 8 GB/s, or 0.5 of memcpy)\n";
  for (const auto& row : decodes) {
    out << fmt::format("{:>7} {:>13.1f} {:>13.1f} {:>7.2f}\n", row["slots"].get<ring::Word>(),
                       row["decode_gigabytes_per_cpu_s"].get<double>(), row["memcpy_gigabytes_per_cpu_s"].get<double>(),
                       row["share_of_memcpy"].get<double>());
  }
  const auto& times = result["publish_claim_done"];
  out << fmt::format("publish, claim, done between two threads: median {:.0f} ns, p99 {:.0f} ns\n",
                     times["median_ns"].get<double>(), times["p99_ns"].get<double>());
  return kExitOk;
}

}  // namespace meshbed::cli
