// Schedules of recorded runs: their text, what is wrong in it, and when their messages go.
#include "sim/replay/recorded_replay.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "plugin/base/prng.h"
#include "tests/replay/replay_requests.h"

namespace recorded_replay_test {

using namespace meshbed;
using namespace meshbed::sim;
using replay_test::cluster_of;
using replay_test::kLatencyPs;
using replay_test::kRateBps;

namespace {

const std::string kHead =
    "meshbed-schedule 1\n"
    "scenario made\nworkload all_reduce\nbytes 8\nwarmup 0\n"
    "stream 0 0 node0/rocep1s0f1 1 node1/rocep1s0f0 7 1 4096\n"
    "stream 1 1 node1/rocep1s0f0 0 node0/rocep1s0f1 7 1 4096\n";

Result<RecordedSchedule> parsed(const std::string& text) {
  std::istringstream stream(text);
  return parse_schedule(stream);
}

RecordedOutcome replayed(const std::string& text, const models::Cluster& cluster) {
  const auto schedule = parsed(text);
  REQUIRE_MESSAGE(schedule.has_value(), schedule.error().text);
  const auto outcome = replay_schedule(*schedule, cluster);
  REQUIRE_MESSAGE(outcome.has_value(), outcome.error().text);
  return *outcome;
}

std::string parse_error(const std::string& text) {
  const auto schedule = parsed(text);
  return schedule ? "none" : schedule.error().text;
}

std::string replay_error(const std::string& text, const models::Cluster& cluster) {
  const auto schedule = parsed(text);
  REQUIRE_MESSAGE(schedule.has_value(), schedule.error().text);
  const auto outcome = replay_schedule(*schedule, cluster);
  return outcome ? "none" : outcome.error().text;
}

/// Random items on the two ways of each of a ring's cables; each waits for what earlier items bring about.
RecordedSchedule random_schedule(Prng& prng, const models::Cluster& cluster) {
  RecordedSchedule schedule;
  schedule.scenario = "random";
  schedule.workload = "all_reduce";
  schedule.ranks = static_cast<int>(cluster.nodes.size());
  for (const models::Cable& cable : cluster.cables) {
    for (const auto& [from, to] : {std::pair(cable.a, cable.b), std::pair(cable.b, cable.a)}) {
      const int each = 1 + static_cast<int>(prng.below(3));  // queue pairs of one link share it
      for (int number = 0; number < each; ++number) {
        const auto name = [&](models::PortRef port) {
          return cluster.at(port.node).name + "/" + cluster.nic_of(port).device;
        };
        schedule.streams.push_back({from.node, to.node, name(from), name(to), prng.below(5), 1, 4096});
      }
    }
  }
  std::vector<std::uint64_t> posted(schedule.streams.size());
  for (int item = 0; item < 200; ++item) {
    ScheduleItem next{.index = static_cast<std::uint32_t>(prng.below(schedule.streams.size())),
                      .payload_bytes = 1 + prng.below(100'000),
                      .delay_ps = static_cast<Picoseconds>(prng.below(2) * prng.below(1'000'000))};
    next.wire_bytes = next.payload_bytes + 60;
    if (prng.below(8) == 0) next.response_bytes = 1 + prng.below(20'000);
    next.is_fenced = prng.below(8) == 0;
    next.first_wait = static_cast<std::uint32_t>(schedule.waits.size());
    for (std::uint64_t wait = prng.below(3); wait > 0; --wait) {
      const auto stream = static_cast<std::uint32_t>(prng.below(schedule.streams.size()));
      if (posted[stream] == 0) continue;
      const auto kind = prng.below(2) == 0 ? SignalKind::kArrival : SignalKind::kCompletion;
      schedule.waits.push_back({{kind, stream}, 1 + prng.below(posted[stream])});
    }
    next.waits = static_cast<std::uint32_t>(schedule.waits.size()) - next.first_wait;
    ++posted[next.index];
    schedule.items.push_back(next);
  }
  return schedule;
}

}  // namespace

TEST_CASE("messages go when what they wait for has happened, and take their bytes over the rate, and the latency") {
  const models::Cluster cluster = cluster_of(models::TopologyKind::kRing, 3);
  const RecordedOutcome outcome =
      replayed(kHead +
                   "post 0 1000 1250 0 5000\n"         // 100 ns on the wire
                   "post 0 1000 1250 0 0\n"            // behind it
                   "post 1 32 125 0 200 a0:2\n"        // 200 ps after the second has arrived
                   "post 0 1000 1250 0 0 c0:1 a1:1\n"  // when the first is acknowledged and the reply has arrived
                   "items 4\n",
               cluster);
  const Picoseconds wire_ps = 100'000;
  CHECK(outcome.times[0].posted_ps == 5000);
  CHECK(outcome.times[0].delivered_ps == 5000 + wire_ps + kLatencyPs);
  CHECK(outcome.times[0].completed_ps == 5000 + wire_ps + 2 * kLatencyPs);
  CHECK(outcome.times[1].posted_ps == 5000);
  CHECK(outcome.times[1].started_ps == 5000 + wire_ps);
  CHECK(outcome.times[1].delivered_ps == 5000 + 2 * wire_ps + kLatencyPs);
  CHECK(outcome.times[2].posted_ps == 5200 + 2 * wire_ps + kLatencyPs);
  CHECK(outcome.times[2].delivered_ps == 5200 + 2 * wire_ps + kLatencyPs + 10'000 + kLatencyPs);
  CHECK(outcome.times[3].posted_ps == outcome.times[2].delivered_ps);
  CHECK(outcome.end_ps == outcome.times[3].completed_ps);
}

TEST_CASE("a read takes its request, its response and two latencies; a fence and the limit hold others back") {
  const models::Cluster cluster = cluster_of(models::TopologyKind::kRing, 3);
  const RecordedOutcome outcome = replayed(kHead +
                                               "post 0 4096 125 1250 0\n"  // 10 ns, 100 ns
                                               "post 0 1000 1250 0 0\n"    // may pass it, and completes behind it
                                               "post 0 4096 125 1250 0\n"  // one read at a time
                                               "fenced 0 1000 1250 0 0\n"
                                               "items 4\n",
                                           cluster);
  const Picoseconds read_ps = 10'000 + kLatencyPs + 100'000 + kLatencyPs;
  CHECK(outcome.times[0].completed_ps == read_ps);
  CHECK(outcome.times[1].delivered_ps == 110'000 + kLatencyPs);
  CHECK(outcome.times[1].completed_ps == std::max(read_ps, 110'000 + 2 * kLatencyPs));
  CHECK(outcome.times[2].started_ps == read_ps);
  CHECK(outcome.times[2].completed_ps == 2 * read_ps);
  CHECK(outcome.times[3].started_ps == 2 * read_ps);
}

TEST_CASE("a call begins when all ranks have ended the one before, and its messages behind it") {
  const models::Cluster cluster = cluster_of(models::TopologyKind::kRing, 3);
  const RecordedOutcome outcome = replayed(kHead +
                                               "begin 0 1000\n"
                                               "begin 1 1000\n"
                                               "post 0 1000 1250 0 0 b0:1\n"
                                               "end 1 0 a0:1\n"
                                               "end 0 0 c0:1\n"
                                               "begin 1 30 e0:1 e1:1\n"
                                               "post 1 1000 1250 0 0 b1:2\n"
                                               "end 1 0 c1:1\n"
                                               "items 8\n",
                                           cluster);
  CHECK(outcome.times[3].posted_ps == 1000 + 100'000 + kLatencyPs);
  CHECK(outcome.times[4].posted_ps == 1000 + 100'000 + 2 * kLatencyPs);
  CHECK(outcome.times[5].posted_ps == outcome.times[4].posted_ps + 30);
  CHECK(outcome.times[6].posted_ps == outcome.times[5].posted_ps);
}

TEST_CASE("what is wrong in a schedule is named with its line") {
  const std::vector<std::pair<std::string, std::string>> wrong{
      {"", "after line 0: it has no last line (items N); it was cut off"},
      {"meshbed-schedule 2\n", "line 1: a schedule begins with \"meshbed-schedule 1\""},
      {kHead, "after line 7: it has no last line (items N); it was cut off"},
      {kHead + "items 1\n", "line 8: it has 0 items"},
      {kHead + "items 0\npost 0 1 1 0 0\n", "line 9: nothing comes after the number of items"},
      {kHead + "post 2 1 1 0 0\n", "line 8: \"2\" is no stream (a number from 0 to 1)"},
      {kHead + "post 0 1 0 0 0\n", "line 8: \"0\" is no number of bytes on the wire (a number from 1 to 4294967296)"},
      {kHead + "post 0 1 1 0\n", "line 8: \"\" is no delay (a number from 0 to 100000000000000000)"},
      {kHead + "post 0 1 1 0 -1\n", "line 8: \"-1\" is no delay (a number from 0 to 100000000000000000)"},
      {kHead + "post 0 1 1 0 0 x0:1\n", "line 8: \"x0:1\" is nothing to wait for (a3:12, c3:12, b1:2 or e1:2)"},
      {kHead + "post 0 1 1 0 0 a0\n", "line 8: \"a0\" is nothing to wait for (a3:12, c3:12, b1:2 or e1:2)"},
      {kHead + "post 0 1 1 0 0 a5:1\n", "line 8: \"5\" is no stream (a number from 0 to 1)"},
      {kHead + "post 0 1 1 0 0 a0:0\n", "line 8: \"0\" is no count (a number from 1 to 18446744073709551615)"},
      {kHead + "stream 5 0 node0/a 1 node1/a 0 1 4096\n", "line 8: streams are numbered in order, and 2 comes next"},
      {kHead + "stream 2 0 node0 1 node1/a 0 1 4096\n", "line 8: \"node0\" is no port (node0/rocep1s0f0)"},
      {kHead + "stream 2 0 node0/a 1 node1/a 0 0 4096\npost 2 1 1 9 0\n",
       "line 9: a response on stream 2, which has none"},
      {kHead + "send 0\n", "line 8: \"send\" is not known"},
      {kHead + "items 0\n", "line 8: it has no message"},
      {"meshbed-schedule 1\nitems 0\n", "line 2: it has no scenario"},
      {kHead + "bytes 9\n", "line 8: a second bytes"},
      {kHead + "begin 0 0\npost 0 1 1 0 0\nitems 2\n", "line 10: rank 0 begins 1 calls and ends 0"},
      {kHead + "stream 2 0 node0/a 1 node1/a 0 1 0\n",
       "line 8: \"0\" is no size of a packet (a number from 1 to 65536)"},
      {kHead + "items 0 0\n", "line 8: \"0\" is too much"},
  };
  for (const auto& [text, error] : wrong) CHECK(parse_error(text) == error);
}

TEST_CASE("a schedule that does not fit the cluster, or waits for ever, is an error and no hang") {
  const models::Cluster ring = cluster_of(models::TopologyKind::kRing, 4);
  CHECK(replay_error(kHead + "post 0 1 1 0 0 a0:1\nitems 1\n", ring) ==
        "item 1 waits for a0:1, which waits for it in turn");
  CHECK(replay_error(kHead + "post 0 1 1 0 0 a1:1\npost 1 1 1 0 0 a0:1\nitems 2\n", ring) ==
        "item 1 waits for a1:1, which waits for it in turn");
  CHECK(replay_error(kHead + "post 0 1 1 0 0 a1:1\nitems 1\n", ring) == "item 1 waits for a1:1, and there are 0");
  CHECK(replay_error(kHead + "post 0 1 1 0 0 e9:1\nitems 1\n", ring) == "item 1 waits for e9:1, and there are 0");
  const std::string tail = "post 0 1 1 0 0\nitems 1\n";
  CHECK(replay_error(kHead + "stream 2 0 node0/eth9 1 node1/rocep1s0f0 0 1 4096\n" + tail, ring) ==
        "stream 2: the cluster has no port node0/eth9");
  CHECK(replay_error(kHead + "stream 2 0 node0/rocep1s0f1 2 node2/rocep1s0f0 0 1 4096\n" + tail, ring) ==
        "stream 2: no cable and no switch joins node0/rocep1s0f1 and node2/rocep1s0f0");
  CHECK(replay_error(kHead + "stream 2 0 node0/rocep1s0f1 1 node1/rocep1s0f0 0 1 1024\n" + tail, ring) ==
        "stream 2: it was recorded with packets of 1024 bytes, and node0/rocep1s0f1 and node1/rocep1s0f0 have 4096; "
        "record it with these");
  models::Cluster down = ring;
  down.nodes[1].nics[0].link_up = false;
  CHECK(replay_error(kHead + tail, down) == "stream 0: the link of node1/rocep1s0f0 is down");
}

TEST_CASE("random schedules: the same after their text was read back; nothing early, and links carry what they can") {
  Prng prng(52);
  const models::Cluster cluster = cluster_of(models::TopologyKind::kRing, 4);
  for (int round = 0; round < 200; ++round) {
    CAPTURE(round);
    const RecordedSchedule schedule = random_schedule(prng, cluster);
    const auto again = parsed(text_of(schedule));
    REQUIRE_MESSAGE(again.has_value(), again.error().text);
    CHECK(text_of(*again) == text_of(schedule));
    const auto one = replay_schedule(schedule, cluster), other = replay_schedule(*again, cluster);
    REQUIRE_MESSAGE(one.has_value(), one.error().text);
    REQUIRE(other.has_value());
    std::vector<std::uint64_t> sent(schedule.streams.size());
    std::vector<Picoseconds> completed(schedule.streams.size());
    for (std::size_t item = 0; item < schedule.items.size(); ++item) {
      const ScheduleItem& each = schedule.items[item];
      const ItemTimes& times = one->times[item];
      CHECK(times.completed_ps == other->times[item].completed_ps);
      CHECK(times.posted_ps >= each.delay_ps);
      CHECK(times.started_ps >= times.posted_ps);
      CHECK(times.delivered_ps >= times.started_ps + wire_time_ps(each.wire_bytes, kRateBps) + kLatencyPs);
      CHECK(times.completed_ps >= times.delivered_ps + kLatencyPs);
      CHECK(times.completed_ps >= completed[each.index]);  // in order
      completed[each.index] = times.completed_ps;
      sent[each.index] += each.wire_bytes;
    }
    std::uint64_t carried = 0, wanted = 0;
    for (const Link& link : one->links) {
      CHECK(link.bytes_in == link.bytes_out);
      CHECK(link.busy_ps <= one->end_ps);
      carried += link.bytes_out;
    }
    for (const ScheduleItem& each : schedule.items) wanted += each.wire_bytes + each.response_bytes;
    CHECK(carried == wanted);
  }
}

TEST_CASE("a schedule with any damage is read, or refused with its line; a replay of it ends") {
  Prng prng(7);
  const models::Cluster cluster = cluster_of(models::TopologyKind::kRing, 4);
  const std::string whole = text_of(random_schedule(prng, cluster));
  const std::string letters = "0123456789 :abce\n\0\x80-";
  int read = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = whole;
    for (std::uint64_t change = 1 + prng.below(3); change > 0; --change) {
      const std::size_t at = prng.below(text.size());
      switch (prng.below(3)) {
        case 0:
          text[at] = letters[prng.below(letters.size())];
          break;
        case 1:
          text.erase(at, 1 + prng.below(40));
          break;
        default:
          text.insert(at, 1, letters[prng.below(letters.size())]);
      }
    }
    const auto schedule = parsed(text);
    if (!schedule) {
      CHECK(schedule.error().text.find("line ") != std::string::npos);
      continue;
    }
    ++read;
    (void)replay_schedule(*schedule, cluster, {.give_up_ps = kPicosecondsPerSecond});
  }
  CHECK(read > 100);
}

}  // namespace recorded_replay_test
