// Slot graphs: loops, tenants and when their requests arrive, and what nothing orders.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "testbed/scenario/megakernel/graph_order.h"
#include "testbed/scenario/megakernel/slot_graph.h"
#include "testbed/scenario/scenario.h"
#include "tests/support/command.h"

namespace slot_graph_loops_test {

using namespace meshbed;
using namespace meshbed::testbed;
namespace op = ring::opcode;

namespace {

SlotGraph read(const std::string& text, const std::string& name = "graph.toml") {
  Diagnostics diagnostics(name);
  SlotGraph graph = parse_slot_graph(text, name, diagnostics);
  diagnostics.throw_if_any();
  return graph;
}

std::string error_of(const std::string& text, const std::string& name = "graph.toml") {
  try {
    read(text, name);
  } catch (const ScenarioError& error) {
    return error.what();
  }
  return "";
}

std::string order_error_of(const std::string& slots) {
  const SlotGraph graph = read("slot = [\n" + slots + "]\n");
  Diagnostics diagnostics("graph.toml");
  check_graph_order(graph, 4, diagnostics);
  try {
    diagnostics.throw_if_any();
  } catch (const ScenarioError& error) {
    return error.what();
  }
  return "";
}

std::string loop(const std::string& slots, int count = 3) {
  return fmt::format("loop = [{{name = \"l\", count = {}}}]\nslot = [\n{}]\n", count, slots);
}

std::vector<std::uint64_t> arrivals_of(const SlotGraph& graph, std::size_t rank = 0) {
  std::vector<std::uint64_t> all;
  for (const GraphSlot& slot : graph.ranks[rank]) all.push_back(slot.mark.arrives_ns);
  return all;
}

std::string tenant(const std::string& keys, int count = 4) {
  return fmt::format(
      "tenant = [{{name = \"t\", {}}}]\nloop = [{{name = \"l\", count = {}}}]\n"
      "slot = [{{id = \"a\", loop = \"l\", tenant = \"t\"}}]\n",
      keys, count);
}

}  // namespace

TEST_CASE("a loop is written out: needs of its own iteration, of the one before, and of the last from outside") {
  const SlotGraph graph =
      read(loop("{id = \"a\", loop = \"l\", needs = [\"b@-1\"]},\n"
                "{id = \"b\", loop = \"l\", op = \"copy\", bytes = 8, from = \"input+16*i\", to = \"output+8+16*i\", "
                "needs = [\"a\"]},\n"
                "{id = \"end\", needs = [\"b\", \"a@1\"]},\n"));
  REQUIRE(graph.ranks[0].size() == 7);
  CHECK(graph.ranks[0][0].needs.empty());
  CHECK(graph.ranks[0][2].id == "a@1");
  CHECK(graph.ranks[0][2].needs == std::vector<GraphNeed>{{0, 1}});
  CHECK(graph.ranks[0][5].needs == std::vector<GraphNeed>{{0, 4}});
  CHECK(graph.ranks[0][5].from.offset_bytes == 32);
  CHECK(graph.ranks[0][5].to.offset_bytes == 40);
  CHECK(graph.ranks[0][6].needs == std::vector<GraphNeed>{{0, 5}, {0, 2}});
}

TEST_CASE("messages of a loop stay in the order of its iterations, and JSON Lines have loops and tenants too") {
  const std::string lines =
      "{\"ranks\": 2, \"loop\": [{\"name\": \"l\", \"count\": 2}], \"tenant\": [{\"name\": \"t\", \"priority\": "
      "\"low\"}]}\n"
      "{\"id\": \"p\", \"loop\": \"l\", \"op\": \"put\", \"peer\": 1, \"bytes\": 64, \"tenant\": \"t\"}\n"
      "{\"rank\": 1, \"id\": \"w\", \"loop\": \"l\", \"op\": \"wait\", \"to\": \"staging+0+64*i\", \"needs\": "
      "[\"0:p\"]}\n";
  const SlotGraph graph = read(lines, "graph.jsonl");
  const coll::SlotProgram receiver = program_of(graph, 1)->slots;
  REQUIRE(receiver.receives[0].landings.size() == 2);
  CHECK(receiver.receives[0].landings[1].area.offset_bytes == 64);
  const GraphProgram sender = *program_of(graph, 0);
  REQUIRE(sender.marks.size() == 4);
  CHECK(sender.marks[3].level == ring::priority::kLow);
  CHECK(graph.tenants == std::vector<std::string>{"t"});
}

TEST_CASE("what is wrong with a loop is said with its place") {
  const std::vector<std::pair<std::string, std::string>> wrong{
      {loop("{loop = \"m\"},\n"), "graph.toml:3:9: loop: there is no [[loop]] 'm'; did you mean 'l'?"},
      {loop("{loop = \"l\"},\n{},\n{loop = \"l\"},\n"),
       "graph.toml:5:9: loop: the slots of 'l' on rank 0 do not stand together; put the other slots before or behind "
       "them"},
      {loop("{id = \"a\", loop = \"l\", needs = [\"a@7\"]},\n"),
       "graph.toml:3:33: needs: 'a@7': 'l' has iterations 0 to 2"},
      {loop("{id = \"a\", loop = \"l\"},\n{needs = [\"a@-1\"]},\n"),
       "graph.toml:4:11: needs: 'a@-1': counts back, and this slot is not in loop 'l'"},
      {loop("{id = \"a\"},\n{needs = [\"a@1\"]},\n"),
       "graph.toml:4:11: needs: 'a@1': is in no loop; leave out '@' and its number"},
      {loop("{id = \"a@1\"},\n"), "graph.toml:3:7: id: has no ':' or '@', which stand between rank, id and iteration"},
      {loop("{op = \"copy\", bytes = 8, from = \"input+8*i\"},\n"),
       "graph.toml:3:1: 'input+8*i': expects SPACE+BYTES*i or SPACE+BYTES+BYTES*i, in a slot with a loop"},
      {loop("{loop = \"l\"},\n", 2'000'000), "graph.toml:1:30: count: 2000000 is out of range; accepted: 1 to 1000000"},
      {"loop = [{name = \"l\"}]\nslot = [{}]\n", "graph.toml:1:9: count: a [[loop]] has one, its iterations"},
  };
  for (const auto& [text, expected] : wrong) CHECK(error_of(text) == expected);
}

TEST_CASE("requests of a tenant arrive by its process; the same seed gives the same times") {
  CHECK(arrivals_of(read(tenant("arrivals = \"all\", first = \"2us\""))) ==
        std::vector<std::uint64_t>{2000, 2000, 2000, 2000});
  CHECK(arrivals_of(read(tenant("arrivals = \"periodic\", gap = \"10us\", first = \"1us\""))) ==
        std::vector<std::uint64_t>{1000, 11000, 21000, 31000});
  CHECK(arrivals_of(read(tenant("arrivals = \"bursts\", gap = \"10us\", burst = 3"))) ==
        std::vector<std::uint64_t>{0, 0, 0, 10000});
  const auto poisson = arrivals_of(read(tenant("arrivals = \"poisson\", gap = \"10us\"", 1000)));
  CHECK(poisson == arrivals_of(read(tenant("arrivals = \"poisson\", gap = \"10us\"", 1000))));
  CHECK(poisson != arrivals_of(read(tenant("arrivals = \"poisson\", gap = \"10us\", seed = 2", 1000))));
  CHECK(std::is_sorted(poisson.begin(), poisson.end()));
  CHECK(static_cast<double>(poisson.back()) == doctest::Approx(1000 * 10000.0).epsilon(0.15));
  const std::string folder = test::scratch_folder("graph_arrivals");
  std::ofstream(folder + "/times.txt") << "# seen on Monday\n0us\n5us\n 5us # two at once\n\n1ms\n";
  CHECK(arrivals_of(read(tenant("arrivals = \"recorded\", times = \"times.txt\""), folder + "/graph.toml")) ==
        std::vector<std::uint64_t>{0, 5000, 5000, 1'000'000});
  CHECK(error_of(tenant("arrivals = \"recorded\", times = \"times.txt\"", 5), folder + "/graph.toml")
            .find("has 4 times for 5 requests; add times, or lower the loop's count") != std::string::npos);
  std::ofstream(folder + "/times.txt") << "2us\n1us\n";
  CHECK(error_of(tenant("arrivals = \"recorded\", times = \"times.txt\"", 2), folder + "/graph.toml")
            .find("times.txt:2: '1us' is before the line before; sort the file") != std::string::npos);
}

TEST_CASE("what is wrong with a tenant is said with its place") {
  const std::vector<std::pair<std::string, std::string>> wrong{
      {tenant("arrivals = \"periodic\""), "arrivals = \"periodic\" needs gap"},
      {tenant("gap = \"1us\""), "gap: goes with arrivals = \"periodic\", \"poisson\" or \"bursts\""},
      {tenant("arrivals = \"bursts\", gap = \"1us\""), "arrivals = \"bursts\" needs burst"},
      {tenant("seed = 3"), "seed: goes with arrivals = \"poisson\""},
      {tenant("arrivals = \"recorded\", times = \"no-such-file\""), "no-such-file"},
      {"slot = [{tenant = \"t\"}]\n", "tenant: there is no [[tenant]] 't'"},
      {tenant("priority = \"hi\""), "priority: 'hi' is unknown"},
  };
  for (const auto& [text, words] : wrong)
    CHECK_MESSAGE(error_of(text).find(words) != std::string::npos, error_of(text));
}

TEST_CASE("bytes that two slots use and nothing orders are named, with both and what is missing") {
  const std::string put = "{id = \"p\", op = \"put\", peer = 1, bytes = 64},\n";
  const std::string wait = "{rank = 1, id = \"w\", op = \"wait\", to = \"staging\", needs = [\"0:p\"]},\n";
  const std::string sum = "{rank = 1, id = \"s\", op = \"reduce\", elements = 16, from = \"staging\", with = \"input\"";
  CHECK(order_error_of(put + wait + sum + ", needs = [\"w\"]},\n").empty());
  CHECK(order_error_of(put + wait + sum + "},\n") ==
        "graph.toml:4:1: needs: rank 1: 's' reads bytes 0 to 63 that the message of 'p' of rank 0 lands in too, and "
        "nothing orders the two: a slot is missing in needs, as the wait for the message, or the places are to differ");
  // Read before the put, which knows of it by another rank's need.
  CHECK(order_error_of("{id = \"p\", op = \"put\", peer = 1, bytes = 64, needs = [\"1:s\"]},\n" + sum + "},\n" + wait)
            .empty());
  // A flag over another connection says nothing of the data.
  CHECK(order_error_of(put + "{id = \"f\", op = \"put\", peer = 1, bytes = 8, channel = 1, needs = [\"p\"]},\n" + wait +
                       "{rank = 1, id = \"g\", op = \"wait\", needs = [\"0:f\"]},\n" + sum + ", needs = [\"g\"]},\n")
            .find("the message of 'p'") != std::string::npos);
  // A later message of the same connection does.
  CHECK(order_error_of(put + "{id = \"f\", op = \"put\", peer = 1, bytes = 8, needs = [\"p\"]},\n" + wait +
                       "{rank = 1, id = \"g\", op = \"wait\", needs = [\"0:f\"]},\n" + sum + ", needs = [\"g\"]},\n")
            .empty());
  CHECK(order_error_of("{id = \"a\", op = \"copy\", bytes = 8},\n{id = \"b\", op = \"copy\", bytes = 8, to = "
                       "\"output+4\"},\n")
            .find("graph.toml:3:1: needs: rank 0: 'b' writes bytes 4 to 7 that 'a' writes too") == 0);
  CHECK(order_error_of("{id = \"a\", needs = [\"b\"]},\n{id = \"b\", needs = [\"a\"]},\n").empty());
}

TEST_CASE("a put to another rank than the wait's is named") {
  CHECK(error_of("slot = [\n{id = \"p\", op = \"put\", peer = 2, bytes = 8},\n"
                 "{rank = 1, op = \"wait\", needs = [\"0:p\"]},\n{rank = 2},\n]\n") ==
        "graph.toml:3:1: needs: 'p' of rank 0 puts to rank 2, and this wait is of rank 1; its peer is wrong, or the "
        "wait's rank");
}

}  // namespace slot_graph_loops_test
