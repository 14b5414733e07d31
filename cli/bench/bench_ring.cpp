#include "cli/bench/bench_ring.h"

// Decoding and memcpy alternate in the same run, in CPU time (the speed of a shared machine varies from one second to
// the next; the share is the median over neighbouring pairs). One slot at a time between two threads is measured in
// wall time.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <ostream>
#include <stdexcept>
#include <thread>
#include <vector>

#include "cli/bench/bench_measure.h"
#include "cli/bench/bench_ring_gpu.h"
#include "cli/bench/bench_ring_simulated.h"
#include "cli/common/document_output.h"
#include "plugin/base/deadline.h"
#include "plugin/base/prng.h"
#include "plugin/ring/queue/live_ring.h"
#include "plugin/ring/telemetry/telemetry.h"
#include "testbed/base/exit_status.h"

namespace meshbed::testbed {
namespace {

constexpr std::int64_t kLong_ms = 60'000;

template <typename Work>
double gigabytes_per_s(std::uint64_t bytes, int passes, const Work& work) {
  const double before = cpu_seconds();
  for (int pass = 0; pass < passes; ++pass) work();
  return static_cast<double>(bytes) * passes / (cpu_seconds() - before) / 1e9;
}

void bench_decode(ring::Word slots, int repetitions, document::Table& rows) {
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
  rows.add({slots, bytes.size(), median(decodes), median(scans), median(copies), median(shares), median(scan_shares),
            shares});
}

document::Section bench_hand_over(int count) {
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
  document::Section section{.key = "publish_claim_done", .title = "Publish, claim, done"};
  section.with({document::integer("slots", "", "from one thread to another and back"),
                document::integer("processors", "", "of the machine"), document::number("median_ns", "ns", "of a slot"),
                document::number("p99_ns", "ns", "of a slot")});
  const double p99_ns = times_ns[times_ns.size() * 99 / 100];
  section.set("slots", count);
  section.set("processors", std::thread::hardware_concurrency());
  section.set("median_ns", median(times_ns));
  section.set("p99_ns", p99_ns);
  section.line("publish, claim, done between two threads: median {:.0f} ns, p99 {:.0f} ns", median(times_ns), p99_ns);
  return section;
}

document::Table decode_table() {
  using document::integer, document::number;
  return {
      .key = "decode",
      .meaning = "rings that are decoded, scanned and copied, medians",
      .columns = {integer("slots", "", "of the ring").shown("slots", 7, ""), integer("ring_bytes", "B", "of the ring"),
                  number("decode_gigabytes_per_cpu_s", "GB/s", "all slots").shown("decode GB/s", 13).rounded(1),
                  number("scan_gigabytes_per_cpu_s", "GB/s", "statuses alone").shown("scan GB/s", 11).rounded(1),
                  number("memcpy_gigabytes_per_cpu_s", "GB/s", "of the bytes").shown("memcpy GB/s", 13).rounded(1),
                  number("share_of_memcpy", "", "decode to memcpy").shown("decode/memcpy", 15).rounded(2),
                  number("scan_share_of_memcpy", "", "scan to memcpy").shown("scan/memcpy", 13).rounded(2),
                  document::any("shares_of_all_repetitions", "a list")}};
}

}  // namespace

int ring_bench_command(const Arguments& arguments, std::ostream& out, std::ostream&) {
  namespace po = boost::program_options;
  Syntax syntax("ring bench [options]");
  std::string slots_text = "1048576", repetitions_text = "15", hand_overs_text = "200000";
  std::string interpreted_text = "4000000", items_text = "100000", ranks_text = "16";
  std::string device_text = "0", repeats_text = "101";
  DocumentOutput output;
  bool gpu = false;
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
       "of --gpu: of each measurement");
  output.describe(syntax.options);
  syntax.only_with({"gpu"}, {"device", "repeats"});
  syntax.only_without({"gpu"}, {"slots", "repetitions", "hand-overs", "interpreted", "items", "ranks-most"});
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;
  if (gpu) {
    constexpr std::uint64_t kDevicesMost = 1024, kRepeatsMost = 1'000'000;
    document::Document report = bench_document("ring-gpu");
    report.sections.push_back(
        bench_ring_on_gpu(static_cast<int>(parse_count("--device", device_text, 0, kDevicesMost)),
                          static_cast<int>(parse_count("--repeats", repeats_text, 1, kRepeatsMost))));
    report.sections.push_back(bench_machine());
    output.finish(report, out);
    return kExitOk;
  }
  const auto slots = static_cast<ring::Word>(parse_count("--slots", slots_text, 1, ring::kSlotsMostEncoded));
  const auto repetitions = static_cast<int>(parse_count("--repetitions", repetitions_text, 1, 1000));
  const auto hand_overs = static_cast<int>(parse_count("--hand-overs", hand_overs_text, 1, 100'000'000));
  const auto interpreted = static_cast<int>(parse_count("--interpreted", interpreted_text, 1, 1'000'000'000));
  const auto items = static_cast<int>(parse_count("--items", items_text, 4, 10'000'000));
  const auto ranks_most = static_cast<int>(parse_count("--ranks-most", ranks_text, 1, 1024));
  document::Document report = bench_document("ring");
  document::Section& decoding = report.sections.front();
  decoding.with(decode_table());
  for (const ring::Word count : {ring::Word{1024}, slots}) {
    bench_decode(count, repetitions, decoding.table("decode"));
  }
  decoding.line("in CPU time:");
  decoding.show("decode");
  report.sections.push_back(bench_hand_over(hand_overs));
  report.sections.push_back(bench_interpreter(interpreted, repetitions));
  report.sections.push_back(bench_simulated_rings(items, ranks_most));
  report.sections.push_back(bench_provenance());
  output.finish(report, out);
  return kExitOk;
}

}  // namespace meshbed::testbed
