// Megakernels with descriptor queues and with several rings a rank, and what each ring's table and zernel's streams
// say.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>

#include "tests/support/command.h"
#include "tests/support/summary.h"

namespace megakernel_queue_test {

using namespace meshbed::test;

namespace {

nlohmann::json run_rings(const std::string& scenario, const std::string& options, int& status,
                         const std::string& results = scratch_folder("megakernel-queue")) {
  return summary_of_run(scenario, options, status, results);
}

std::uint64_t credit_waits(const nlohmann::json& summary) {
  std::uint64_t all = 0;
  for (const auto& rank : summary.at("rings").at("ranks")) all += rank.at("credit_waits").get<std::uint64_t>();
  return all;
}

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

const std::string kSmall = "--set topology.nodes=3 --set workload.bytes=96K --set workload.slice_bytes=2K ";

/// With one place the doorbell cannot wait for another WQE.
std::string one_at_a_time(const std::string& queue) {
  return queue == "ibgda" ? " --set workload.megakernel.doorbell_every=1" : "";
}

}  // namespace

TEST_CASE("over descriptors every program gives the engine's bits, in queues of any depth") {
  for (const char* queue : {"gin", "fifo", "ibgda"}) {
    for (const char* program : {"all_reduce", "all_gather", "fused_all_reduce", "pipeline", "moe"}) {
      for (const char* depth : {"1", "256"}) {
        CAPTURE(queue);
        CAPTURE(program);
        CAPTURE(depth);
        int status = -1;
        const nlohmann::json summary =
            run_rings(std::string("megakernel-") + queue,
                      kSmall + "--set workload.megakernel.program=" + program +
                          " --set workload.megakernel.queue_depth=" + depth + one_at_a_time(queue),
                      status);
        CHECK(status == 0);
        CHECK(summary.at("wrong") == 0);
      }
    }
  }
}

TEST_CASE("a shallow queue makes lanes wait for credit, which slots.csv shows; a deep one does not; both repeat") {
  const std::string results = scratch_folder("megakernel-credit");
  for (const std::string queue : {"gin", "fifo", "ibgda"}) {
    const std::string scenario = "megakernel-" + queue;
    CAPTURE(scenario);
    int status = -1;
    const nlohmann::json one =
        run_rings(scenario, kSmall + "--set workload.megakernel.queue_depth=1" + one_at_a_time(queue), status, results);
    CHECK(credit_waits(one) > 0);
    CHECK(text_of(results + "/" + scenario + "/sim/slots.csv").find(",credit,") != std::string::npos);
    CHECK(run_rings(scenario, kSmall + "--set workload.megakernel.queue_depth=1" + one_at_a_time(queue), status)
              .at("digest") == one.at("digest"));
    CHECK(credit_waits(run_rings(scenario, kSmall + "--set workload.megakernel.queue_depth=4096", status)) == 0);
  }
}

TEST_CASE("a place comes back later from GIN's queue than from MSCCL++'s") {
  int status = -1;
  const std::string shallow = kSmall + "--set workload.megakernel.queue_depth=4";
  const auto waited = [&](const char* scenario) {
    double all_ns = 0;
    const nlohmann::json summary = run_rings(scenario, shallow, status);
    for (const auto& rank : summary.at("rings").at("ranks")) all_ns += rank.at("credit_wait_ns").get<double>();
    return all_ns;
  };
  CHECK(waited("megakernel-gin") > waited("megakernel-fifo"));
}

TEST_CASE("IBGDA: the NIC reads WQEs at a doorbell; one that is never rung is named") {
  int status = -1;
  // Each message is needed before the next one of its queue pair is written: in batches of 64 the ring stands still.
  const std::string never = kSmall +
                            "--set workload.slice_bytes=32K --set workload.megakernel.queue_depth=64 "
                            "--set workload.megakernel.doorbell_every=64 --set workload.megakernel.watchdog=10ms";
  const CommandResult stuck = run_command_line(meshbed_program() + " run " + scenario_file("megakernel-ibgda") + " " +
                                               never + " --results " + scratch_folder("megakernel-doorbell") + " 2>&1");
  CHECK(stuck.status == 1);
  for (const char* words : {"rank 0 has written ", " for rank 1, and not rung the doorbell"}) {
    CHECK_MESSAGE(stuck.output.find(words) != std::string::npos, stuck.output);
  }
  // A lane spends `post` on each doorbell; a proxy on all that it finds.
  const auto time_of = [&](const std::string& options) {
    const nlohmann::json summary = run_rings(
        "megakernel-deepep",
        "--set topology.nodes=2 --set workload.megakernel.experts=8 --set workload.megakernel.phase=dispatch " +
            options,
        status);
    CHECK(status == 0);
    CHECK(summary.at("wrong") == 0);
    return summary.at("time_ns").get<double>();
  };
  const std::string one_lane = "--set workload.megakernel.lanes=1 --set workload.megakernel.post=2us ";
  const double each = time_of(one_lane + "--set workload.megakernel.doorbell_every=1");
  const double fourth = time_of(one_lane + "--set workload.megakernel.doorbell_every=4");
  // About 512 of a rank's messages go to the other one, each with its atomic.
  CHECK(each > 1.9e6);
  CHECK(fourth < each / 3);
  CHECK(fourth > each / 5);
  CHECK(time_of(one_lane + "--set workload.megakernel.initiation=host") < fourth);
}

TEST_CASE("several proxies share the posts of a rank's messages, and change no bit") {
  int status = -1;
  const auto run = [&](const std::string& queue, int proxies) {
    const nlohmann::json summary =
        run_rings("megakernel-moe",
                  "--set topology.nodes=5 --set workload.megakernel.routing=random --set workload.megakernel.tokens=32 "
                  "--set workload.megakernel.experts=20 --set workload.megakernel.top_k=8 "
                  "--set workload.megakernel.message_tokens=1 --set workload.megakernel.compute=0s "
                  "--set workload.megakernel.publish=0s --set workload.megakernel.post=4us "
                  "--set workload.megakernel.queue=" +
                      queue + " --set workload.megakernel.proxies=" + std::to_string(proxies),
                  status);
    CHECK(status == 0);
    CHECK(summary.at("wrong") == 0);
    return summary;
  };
  for (const char* queue : {"gin", "fifo", "direct"}) {
    CAPTURE(queue);
    const nlohmann::json one = run(queue, 1), two = run(queue, 2), four = run(queue, 4);
    CHECK(two.at("time_ns").get<double>() < 0.75 * one.at("time_ns").get<double>());
    CHECK(four.at("time_ns").get<double>() < 0.75 * two.at("time_ns").get<double>());
    CHECK(four.at("data") == one.at("data"));
    CHECK(run(queue, 4).at("digest") == four.at("digest"));
  }
}

TEST_CASE("a place that comes back late costs time in every queue, and so does each pass of the proxy") {
  int status = -1;
  const auto time_of = [&](const std::string& scenario, const std::string& options) {
    const nlohmann::json summary =
        run_rings(scenario, kSmall + "--set workload.megakernel.queue_depth=2 " + options, status);
    CHECK(status == 0);
    return summary.at("time_ns").get<double>();
  };
  for (const char* scenario : {"megakernel-gin", "megakernel-fifo"}) {
    CAPTURE(scenario);
    const double plain = time_of(scenario, "");
    CHECK(time_of(scenario, "--set workload.megakernel.credit=100us") > 1.5 * plain);
    CHECK(time_of(scenario, "--set workload.megakernel.proxy_pass=5us") > 1.1 * plain);
    CHECK(time_of(scenario, "--set workload.megakernel.credit=10us --set workload.megakernel.queue_depth=256") <
          time_of(scenario, "--set workload.megakernel.credit=10us"));
  }
}

TEST_CASE("lanes that reserve by fetch-and-add overcommit the head, take turns, and give the same bits") {
  const auto beyond = [](const nlohmann::json& summary) {
    std::uint64_t most = 0;
    for (const auto& rank : summary.at("rings").at("ranks")) {
      most = std::max(most, rank.at("overcommitted_most").get<std::uint64_t>());
    }
    return most;
  };
  for (const std::string queue : {"gin", "fifo", "ibgda"}) {
    for (const std::string fused : {"fused", "apart"}) {
      CAPTURE(queue);
      CAPTURE(fused);
      const std::string options =
          kSmall + "--set workload.megakernel.program=moe --set workload.megakernel.queue_depth=2 " +
          "--set workload.megakernel.credit=50us --set workload.megakernel.put_and_signal=" + fused;
      int status = -1;
      const nlohmann::json if_free = run_rings("megakernel-" + queue, options, status);
      CHECK(status == 0);
      CHECK(beyond(if_free) == 0);
      const nlohmann::json reserved =
          run_rings("megakernel-" + queue, options + " --set workload.megakernel.reserve=fetch-add", status);
      CHECK(status == 0);
      CHECK(reserved.at("wrong") == 0);
      CHECK(beyond(reserved) > 0);
      CHECK(credit_waits(reserved) > 0);
      const nlohmann::json again =
          run_rings("megakernel-" + queue, options + " --set workload.megakernel.reserve=fetch-add", status);
      CHECK(again.at("digest") == reserved.at("digest"));
      CHECK(again.at("time_ns") == reserved.at("time_ns"));
    }
  }
  int status = -1;
  const nlohmann::json roomy =
      run_rings("megakernel-fifo", kSmall + "--set workload.megakernel.reserve=fetch-add", status);
  CHECK(status == 0);
  CHECK(beyond(roomy) == 0);
}

TEST_CASE("put and signal are one message where they are fused, and two where they are not") {
  int status = -1;
  for (const char* scenario : {"megakernel-gin", "megakernel-fifo"}) {
    CAPTURE(scenario);
    const nlohmann::json fused = run_rings(scenario, kSmall + "--set workload.megakernel.post=5us", status);
    CHECK(status == 0);
    const nlohmann::json apart = run_rings(
        scenario, kSmall + "--set workload.megakernel.post=5us --set workload.megakernel.put_and_signal=apart", status);
    CHECK(status == 0);
    CHECK(apart.at("messages").get<double>() > 1.3 * fused.at("messages").get<double>());
    CHECK(apart.at("time_ns").get<double>() > 1.5 * fused.at("time_ns").get<double>());
  }
}

TEST_CASE("a built-in program, printed and run from its file, takes the same time") {
  const std::string folder = scratch_folder("megakernel-printed");
  for (const char* program : {"decode", "pipeline", "moe"}) {
    CAPTURE(program);
    const std::string settings = std::string(program) == "decode" ? "--set workload.megakernel.layers=4 " : "";
    const CommandResult printed =
        run_command_line(meshbed_program() + " ring program " + program + " --ranks 3 " + settings + "2>&1");
    REQUIRE(printed.status == 0);
    std::ofstream(folder + "/printed.toml") << printed.output;
    const auto run = [&](const std::string& name, const std::string& workload, const std::string& kernel) {
      std::ofstream(folder + "/" + name + ".toml")
          << "[topology]\nkind = \"ring\"\nnodes = 3\n[workload]\nkind = \"megakernel\"\n"
          << workload << "[workload.megakernel]\nprogram = \"" << kernel << "\"\nprofile = \"dgx-spark-ring\"\n";
      const CommandResult done =
          run_command_line(meshbed_program() + " run " + folder + "/" + name + ".toml --json " +
                           (name == "named" ? settings : "") + "--results " + folder + " 2>/dev/null");
      REQUIRE(done.status == 0);
      return nlohmann::json::parse(done.output);
    };
    const nlohmann::json named = run("named", "bytes = \"48K\"\n", program), file = run("file", "", "printed.toml");
    CHECK(file.at("time_ns") == named.at("time_ns"));
    const nlohmann::json& all = file.at("rings").at("latencies").at(2);
    CHECK(all.at("group") == "all");
    CHECK(all.at("part") == "completion");
    CHECK(all.at("p50_ns") <= all.at("p99_ns"));
    CHECK(all.at("p99_ns") <= all.at("max_ns"));
    CHECK(all.at("max_ns").get<double>() <= file.at("time_ns").get<double>() + 1e6);
  }
}

TEST_CASE("percentiles by priority show who starves, and slots.csv whose each slot is") {
  const std::string folder = scratch_folder("megakernel-priorities");
  int status = -1;
  const nlohmann::json summary = run_rings("megakernel-starvation",
                                           "--set workload.megakernel.mode=safe --set expect.watchdog=drained "
                                           "--set 'workload.megakernel.mix=[\"compute\"]' "
                                           "--set workload.megakernel.compute=20us "
                                           "--set 'workload.megakernel.priorities=[1,0,0,0,1]'",
                                           status, folder);
  CHECK(status == 0);
  std::map<std::string, double> p99;
  for (const auto& one : summary.at("rings").at("latencies")) {
    if (one.at("group") == "priority" && one.at("part") == "queueing") {
      p99[one.at("name").get<std::string>()] = one.at("p99_ns").get<double>();
    }
  }
  CHECK(p99.at("CRITICAL") < p99.at("IDLE"));
  const std::string csv = text_of(folder + "/megakernel-starvation/sim/slots.csv");
  CHECK(csv.find(",ring,tenant,priority\n") != std::string::npos);
}

TEST_CASE("several rings a rank give the engine's bits, share the work and repeat") {
  const std::string words = "--set topology.nodes=3 --set workload.bytes=72K --set workload.slice_bytes=2K ";
  for (const char* scenario : {"megakernel-gin", "megakernel-ring8"}) {
    for (const int rings : {2, 3}) {
      CAPTURE(scenario);
      CAPTURE(rings);
      int status = -1;
      const std::string options =
          words + "--set workload.iterations=1 --set workload.megakernel.rings=" + std::to_string(rings);
      const nlohmann::json one = run_rings(scenario, options, status);
      CHECK(status == 0);
      CHECK(one.at("wrong") == 0);
      REQUIRE(one.at("rings").at("ranks").size() == static_cast<std::size_t>(3 * rings));
      std::set<std::pair<int, int>> names;
      for (const auto& rank : one.at("rings").at("ranks")) {
        names.emplace(rank.at("rank").get<int>(), rank.at("ring").get<int>());
        CHECK(rank.at("ended") == one.at("rings").at("ranks").at(0).at("ended"));
      }
      CHECK(names.size() == static_cast<std::size_t>(3 * rings));
      CHECK(run_rings(scenario, options, status).at("digest") == one.at("digest"));
    }
  }
}

TEST_CASE("a queue's items go to its rings in turn; each ring adds up its own") {
  int status = -1;
  const nlohmann::json one = run_rings(
      "megakernel-starvation",
      "--set workload.megakernel.mode=safe --set expect.watchdog=drained --set workload.megakernel.rings=4", status);
  CHECK(status == 0);
  CHECK(one.at("rings").at("slots_done") == 400);
  for (const auto& rank : one.at("rings").at("ranks")) CHECK(rank.at("ended") == 50);
}

TEST_CASE("each ring's table: slots a second, depth, idle lanes, fairness and the watchdog") {
  int status = -1;
  const nlohmann::json summary = run_rings("megakernel-tenant-masked", "", status);
  REQUIRE(summary.at("rings").at("ranks").size() == 2);
  const nlohmann::json& rank = summary.at("rings").at("ranks").at(0);
  CHECK(rank.at("slots_per_s") > 0);
  CHECK(rank.at("queue_depth_most") > 0);
  CHECK(rank.at("lanes_idle") > 0);
  CHECK(rank.at("lanes_idle") < 1);
  CHECK(rank.at("tenant_fairness_total") == rank.at("ended"));
  CHECK(rank.at("watchdog").at("health") == "tenant-masked");
  CHECK(rank.at("watchdog").at("in_vain") == 2);
  CHECK(rank.at("watchdog").at("ancestor_suspected") == 2);
  const CommandResult text = run_command_line(meshbed_program() + " run " + scenario_file("megakernel-tenant-masked") +
                                              " 2>&1 --results " + scratch_folder("megakernel-table"));
  CHECK(text.output.find("slots/s") != std::string::npos);
}

TEST_CASE("zernel's streams have each launch, and the collectives that slots carry out") {
  const std::string folder = scratch_folder("megakernel-zernel");
  int status = -1;
  run_rings("megakernel-gin", kSmall + "--zernel-out " + folder + "/zernel", status, folder);
  CHECK(status == 0);
  const std::string cuda = text_of(folder + "/zernel/cuda.zev"), nccl = text_of(folder + "/zernel/nccl.zev");
  CHECK(cuda.size() == 3 * 40);
  CHECK(nccl.size() == 2 * 3 * 40);  // an iteration, and the one that is compared with the engine's
  std::uint64_t latency_ns = 0;
  std::memcpy(&latency_ns, cuda.data() + 32, sizeof latency_ns);
  CHECK(latency_ns == 50'000);
}

TEST_CASE("a queue's requests for data are served when they appear, not at the watchdog's next look") {
  int status = -1;
  const nlohmann::json summary =
      run_rings("megakernel-starvation",
                "--set workload.megakernel.mode=safe --set expect.watchdog=drained --set "
                "workload.megakernel.watchdog=10ms --set 'workload.megakernel.mix=[\"load_miss\"]'",
                status);
  CHECK(status == 0);
  CHECK(summary.at("rings").at("slots_done") == 400);
  CHECK(summary.at("time_ns") < 1e6);
}

TEST_CASE("a node that loses its power: every other ring says whom it misses, and [expect] lost is kept") {
  const std::string folder = scratch_folder("megakernel-lost");
  std::ofstream(folder + "/lost.toml") << R"([topology]
kind = "ring"
nodes = 4
[workload]
kind = "megakernel"
bytes = "1M"
iterations = 3
[[fault]]
kind = "node_kill"
target = "node2"
at = "150us"
[expect]
lost = "node2"
)";
  const CommandResult run =
      run_command_line(meshbed_program() + " run " + folder + "/lost.toml --json --results " + folder + " 2>/dev/null");
  CHECK(run.status == 0);
  const nlohmann::json summary = nlohmann::json::parse(run.output);
  CHECK(summary.at("rings").at("verdicts").size() == 3);
  for (const auto& one : summary.at("rings").at("verdicts")) {
    CHECK(one.at("verdict") == "stalled-peer");
    CHECK(one.at("waits_for_rank") == (one.at("rank").get<int>() + 3) % 4);
  }
}

}  // namespace megakernel_queue_test
