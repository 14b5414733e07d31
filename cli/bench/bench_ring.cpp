#include "cli/bench/bench_ring.h"

// Decoding and memcpy alternate in the same run, in CPU time (the speed of a shared machine varies from one second to
// the next; the share is the median over neighbouring pairs). One slot at a time between two threads is measured in
// wall time.
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
#include "cli/bench/bench_ring_gpu.h"
#include "cli/bench/bench_ring_simulated.h"
#include "plugin/base/deadline.h"
#include "plugin/base/prng.h"
#include "plugin/ring/queue/live_ring.h"
#include "plugin/ring/telemetry/telemetry.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/files.h"
#include "testbed/base/json_text.h"

namespace meshbed::testbed {
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
  const auto scan = [&] {
    depth += ring::occupancy_of(bytes)->queue_depth();
    std::atomic_signal_fence(std::memory_order_seq_cst);
  };
  const auto copied = [&] {
    std::memcpy(copy.data(), bytes.data(), bytes.size());
    std::atomic_signal_fence(std::memory_order_seq_cst);
  };
  decode();  // the memory is there from here on
  copied();
  const int passes = std::max<int>(1, static_cast<int>((std::uint64_t{64} << 20U) / bytes.size()));
  std::vector<double> decodes, copies, shares, scans, scan_shares;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    copies.push_back(gigabytes_per_s(bytes.size(), passes, copied));
    decodes.push_back(gigabytes_per_s(bytes.size(), passes, decode));
    scans.push_back(gigabytes_per_s(bytes.size(), passes, scan));
    shares.push_back(decodes.back() / copies.back());
    scan_shares.push_back(scans.back() / copies.back());
  }
  if (depth == 0 || decoded.size() != slots) throw std::runtime_error("ring bench: nothing was decoded");
  return {{"slots", slots},
          {"ring_bytes", bytes.size()},
          {"decode_gigabytes_per_cpu_s", median(decodes)},
          {"memcpy_gigabytes_per_cpu_s", median(copies)},
          {"scan_gigabytes_per_cpu_s", median(scans)},
          {"share_of_memcpy", median(shares)},
          {"scan_share_of_memcpy", median(scan_shares)},
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
    const std::int64_t before_ns = now_ns();
    Result<void> done = ring.publish({.opcode = ring::opcode::kUserFirst});
    if (done) done = ring.done_within(0, kLong_ms);
    times_ns.push_back(static_cast<double>(now_ns() - before_ns));
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

void print_decode(const nlohmann::json& rows, std::ostream& out) {
  out << "  slots   decode GB/s   scan GB/s   memcpy GB/s   decode/memcpy   scan/memcpy  (CPU time)\n";
  for (const auto& row : rows) {
    out << fmt::format("{:>7} {:>13.1f} {:>11.1f} {:>13.1f} {:>15.2f} {:>13.2f}\n", row["slots"].get<ring::Word>(),
                       row["decode_gigabytes_per_cpu_s"].get<double>(), row["scan_gigabytes_per_cpu_s"].get<double>(),
                       row["memcpy_gigabytes_per_cpu_s"].get<double>(), row["share_of_memcpy"].get<double>(),
                       row["scan_share_of_memcpy"].get<double>());
  }
}

void print_simulated(const nlohmann::json& result, std::ostream& out) {
  constexpr double kMillion = 1e6;
  out << "simulated slots a CPU second, the interpreter alone:\n";
  for (const auto& row : result["interpreter"]) {
    out << fmt::format("  {:<20} {:>5} slots, {:>4} lanes {:>8.1f} million\n", row["kernel"].get<std::string>(),
                       row["slots_of_ring"].get<int>(), row["lanes"].get<int>(),
                       row["slots_per_cpu_s"].get<double>() / kMillion);
  }
  out << "an all-reduce of 64 KiB by slots, over the simulated mesh:\n";
  for (const auto& row : result["simulated"]["mesh"]) {
    out << fmt::format("  {:>3} ranks {:>8.3f} million slots a CPU second\n", row["ranks"].get<int>(),
                       row["slots_per_cpu_s"].get<double>() / kMillion);
  }
  out << "queues: 1 s of virtual time takes a minute with so many slots\n"
         "  ranks  rings  slots   slots/CPU s   slots/virtual s   of each ring   peak MiB of the run\n";
  constexpr std::uint64_t kMebibyte = 1U << 20U;
  for (const auto& row : result["simulated"]["queues"]) {
    out << fmt::format("  {:>5} {:>6} {:>6} {:>13.0f} {:>17.0f} {:>14.0f} {:>21}\n", row["ranks"].get<int>(),
                       row["rings"].get<int>(), row["slots_of_ring"].get<int>(), row["slots_per_cpu_s"].get<double>(),
                       row["slots_per_virtual_s_in_a_minute"].get<double>(),
                       row["slots_per_virtual_s_of_a_ring"].get<double>(),
                       row["peak_rss_bytes"].get<std::uint64_t>() / kMebibyte);
  }
}

}  // namespace

int ring_bench_command(const Arguments& arguments, std::ostream& out, std::ostream&) {
  namespace po = boost::program_options;
  Syntax syntax("ring bench [options]");
  std::string slots_text = "1048576", repetitions_text = "15", hand_overs_text = "200000";
  std::string interpreted_text = "4000000", items_text = "100000", ranks_text = "16", keep;
  std::string device_text = "0", repeats_text = "101";
  bool json = false, gpu = false;
  syntax.options.add_options()  //
      ("slots", po::value(&slots_text)->value_name("N")->default_value(slots_text),
       "in the larger ring that is decoded; the smaller has 1024")  //
      ("repetitions", po::value(&repetitions_text)->value_name("N")->default_value(repetitions_text),
       "of the decoding, with a memcpy before each; and of the interpreter, of which the best counts")  //
      ("hand-overs", po::value(&hand_overs_text)->value_name("N")->default_value(hand_overs_text),
       "slots from one thread to another and back")  //
      ("interpreted", po::value(&interpreted_text)->value_name("N")->default_value(interpreted_text),
       "slots through the interpreter alone")  //
      ("items", po::value(&items_text)->value_name("N")->default_value(items_text),
       "slots of each rank in whole simulations")  //
      ("ranks-most", po::value(&ranks_text)->value_name("N")->default_value(ranks_text),
       "in whole simulations: 1, 4, 16 ... up to so many")  //
      ("gpu", po::bool_switch(&gpu),
       "instead of all this: a kernel's launch against a slot of a resident megakernel, on the GPU that is found")  //
      ("device", po::value(&device_text)->value_name("N")->default_value(device_text),
       "of --gpu: which of the driver's, counted from 0")  //
      ("repeats", po::value(&repeats_text)->value_name("N")->default_value(repeats_text),
       "of --gpu: of each measurement")                                                                           //
      ("keep", po::value(&keep)->value_name("FILE"), "also write the result, with its provenance, to this file")  //
      ("json", po::bool_switch(&json), "print JSON instead of the table");
  syntax.only_with({"gpu"}, {"device", "repeats"});
  syntax.only_without({"gpu"}, {"slots", "repetitions", "hand-overs", "interpreted", "items", "ranks-most"});
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;
  if (gpu) {
    constexpr std::uint64_t kDevicesMost = 1024, kRepeatsMost = 1'000'000;
    nlohmann::json result = {
        {"benchmark", "ring-gpu"},
        {"gpu", bench_ring_on_gpu(static_cast<int>(parse_count("--device", device_text, 0, kDevicesMost)),
                                  static_cast<int>(parse_count("--repeats", repeats_text, 1, kRepeatsMost)))},
        {"provenance", bench_machine()}};
    if (!keep.empty()) write_text_file(keep, json_text(result, kIndent) + "\n");
    if (json) {
      out << json_text(result, kIndent) << "\n";
    } else {
      print_ring_on_gpu(result["gpu"], out);
    }
    return kExitOk;
  }
  const auto slots = static_cast<ring::Word>(parse_count("--slots", slots_text, 1, ring::kSlotsMostEncoded));
  const auto repetitions = static_cast<int>(parse_count("--repetitions", repetitions_text, 1, 1000));
  const auto hand_overs = static_cast<int>(parse_count("--hand-overs", hand_overs_text, 1, 100'000'000));
  const auto interpreted = static_cast<int>(parse_count("--interpreted", interpreted_text, 1, 1'000'000'000));
  const auto items = static_cast<int>(parse_count("--items", items_text, 4, 10'000'000));
  const auto ranks_most = static_cast<int>(parse_count("--ranks-most", ranks_text, 1, 1024));
  nlohmann::json decodes = nlohmann::json::array();
  for (const ring::Word count : {ring::Word{1024}, slots}) decodes.push_back(bench_decode(count, repetitions));
  const nlohmann::json result = {{"benchmark", "ring"},
                                 {"decode", decodes},
                                 {"publish_claim_done", bench_hand_over(hand_overs)},
                                 {"interpreter", bench_interpreter(interpreted, repetitions)},
                                 {"simulated", bench_simulated_rings(items, ranks_most)},
                                 {"provenance", bench_provenance()}};
  if (!keep.empty()) write_text_file(keep, json_text(result, kIndent) + "\n");
  if (json) {
    out << json_text(result, kIndent) << "\n";
    return kExitOk;
  }
  print_decode(result["decode"], out);
  const auto& times = result["publish_claim_done"];
  out << fmt::format("publish, claim, done between two threads: median {:.0f} ns, p99 {:.0f} ns\n",
                     times["median_ns"].get<double>(), times["p99_ns"].get<double>());
  print_simulated(result, out);
  return kExitOk;
}

}  // namespace meshbed::testbed
