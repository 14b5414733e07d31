// Two runs joined message by message.
#include <doctest/doctest.h>

#include <fstream>
#include <stdexcept>
#include <utility>

#include "testbed/result/compare_messages.h"
#include "tests/support/command.h"

namespace compare_test {

using namespace meshbed::testbed;
using meshbed::test::scratch_folder;

namespace {

TracedMessage message(std::uint32_t qp, std::uint64_t sequence, std::uint64_t bytes, std::uint32_t status = 0) {
  return {.source_rank = 0,
          .destination_rank = 1,
          .source = "node0/a",
          .destination = "node1/a",
          .source_gid = "::1",
          .destination_gid = "::2",
          .source_qp = qp,
          .destination_qp = qp + 100,
          .sequence = sequence,
          .opcode = 1,
          .payload_bytes = bytes,
          .status = status};
}

std::vector<std::string> differences(const std::vector<TracedMessage>& sim, const std::vector<TracedMessage>& emu) {
  const MessageComparison compared = compare_messages({.name = "sim", .messages = sim, .cut_ports = {}},
                                                      {.name = "emu", .messages = emu, .cut_ports = {}});
  CHECK(compared.by_arrival.empty());
  return compared.differences;
}

constexpr std::uint32_t kWrite = 0;           // IBV_WR_RDMA_WRITE
constexpr std::uint32_t kRetriesRanOut = 12;  // IBV_WC_RETRY_EXC_ERR
constexpr std::uint32_t kFlushed = 5;         // IBV_WC_WR_FLUSH_ERR

TracedMessage back(TracedMessage message) {
  std::swap(message.source_rank, message.destination_rank);
  std::swap(message.source, message.destination);
  std::swap(message.source_gid, message.destination_gid);
  std::swap(message.source_qp, message.destination_qp);
  return message;
}

TracedMessage between(int from, int to, TracedMessage message) {
  message.source_rank = from;
  message.destination_rank = to;
  return message;
}

/// Three messages on a connection that breaks at the second, which is sent again with what was behind it.
std::vector<TracedMessage> broken_run(std::uint32_t qp) {
  return {message(qp, 0, 64), message(qp, 1, 64, kRetriesRanOut), message(qp, 2, 64, kFlushed), message(qp + 1, 0, 64),
          message(qp + 1, 1, 64)};
}

MessageComparison broken(const std::vector<TracedMessage>& sim, const std::vector<TracedMessage>& emu) {
  return compare_messages({.name = "sim", .messages = sim, .cut_ports = {}},
                          {.name = "emu", .messages = emu, .cut_ports = {}});
}

constexpr std::uint32_t kStriped = 0x80000000;  // in a size

TracedMessage plain(TracedMessage one) {
  one.opcode = kWrite;
  return one;
}

TracedMessage saying(std::uint32_t immediate, TracedMessage one) {
  one.immediate = immediate;
  return one;
}

TracedMessage over_b(TracedMessage one) {
  one.source = "node0/b";
  one.destination = "node1/b";
  return one;
}

/// A group of two parts, then one message, all striped over two cables: what the first cable has of each, and the
/// second. 0: a part that is not written there.
std::vector<TracedMessage> group_and_message(std::uint32_t qp, std::vector<std::uint64_t> first,
                                             std::vector<std::uint64_t> second, std::uint32_t size = 1024) {
  std::vector<TracedMessage> run;
  std::uint64_t sequence = 0;
  for (const std::size_t part : {0U, 1U}) {
    if (first[part] > 0) run.push_back(plain(message(qp, sequence++, first[part])));
  }
  run.push_back(saying(2, message(qp, sequence++, 8)));
  run.push_back(saying(size | kStriped, message(qp, sequence, first[2])));
  for (std::size_t stripe = 0; stripe < 3; ++stripe) run.push_back(over_b(message(qp + 50, stripe, second[stripe])));
  return run;
}

std::vector<TracedMessage> both(std::vector<TracedMessage> one, const std::vector<TracedMessage>& other) {
  one.insert(one.end(), other.begin(), other.end());
  return one;
}

}  // namespace

TEST_CASE(
    "pieces of a striped message may be cut elsewhere, if over each cable go as many and together as many bytes") {
  const std::vector<TracedMessage> sim{message(7, 0, 512), message(7, 1, 512), over_b(message(8, 0, 512)),
                                       over_b(message(8, 1, 512))};
  const auto with_second = [&](std::uint64_t bytes, std::uint64_t other_bytes) {
    std::vector<TracedMessage> emu = sim;
    emu[1].payload_bytes = bytes;
    emu[3].payload_bytes = other_bytes;
    return compare_messages({.name = "sim", .messages = sim, .cut_ports = {}},
                            {.name = "emu", .messages = emu, .cut_ports = {}});
  };
  const MessageComparison recut = with_second(0, 1024);
  CHECK(recut.differences.empty());
  CHECK(recut.in_order == 4);
  CHECK(recut.cut_otherwise == 2);
  CHECK(with_second(0, 1023).differences.size() == 2);  // a byte is missing
  CHECK(with_second(512, 512).cut_otherwise == 0);
  // On one cable there is nothing to balance.
  CHECK(differences({message(7, 0, 512), message(7, 1, 512)}, {message(7, 0, 0), message(7, 1, 1024)}).size() == 1);
  // What a message says of itself is the whole one's size, wherever it was cut: these are other messages.
  std::vector<TracedMessage> swapped = sim;
  swapped[1].payload_bytes = swapped[1].immediate = 256;
  swapped[3].payload_bytes = swapped[3].immediate = 768;
  CHECK(differences(sim, swapped).size() == 2);
  // A write that is no message's end is no stripe that the receiver waits for.
  std::vector<TracedMessage> writes = sim, other = sim;
  for (TracedMessage& one : writes) one.opcode = kWrite;
  for (TracedMessage& one : other) one.opcode = kWrite;
  other[1].payload_bytes = 256;
  other[3].payload_bytes = 768;
  CHECK(differences(writes, other).size() == 2);
}

TEST_CASE(
    "parts of a group that were striped may be cut elsewhere too, and one may go over the other cable altogether") {
  // Two parts and the group's sizes; a stripe of each part ends for itself on the other cable.
  const std::vector<TracedMessage> sim{plain(message(7, 0, 512)), plain(message(7, 1, 512)), message(7, 2, 8),
                                       over_b(message(8, 0, 512)), over_b(message(8, 1, 512))};
  const std::vector<TracedMessage> emu{plain(message(7, 0, 256)), message(7, 1, 8), over_b(message(8, 0, 768)),
                                       over_b(message(8, 1, 1024))};
  const MessageComparison recut = compare_messages({.name = "sim", .messages = sim, .cut_ports = {}},
                                                   {.name = "emu", .messages = emu, .cut_ports = {}});
  CHECK(recut.differences.empty());
  CHECK(recut.cut_otherwise == 3);
  std::vector<TracedMessage> less = emu;
  less[0].payload_bytes = 255;
  CHECK(differences(sim, less).size() == 2);
}

TEST_CASE("a striped group that lacks a part is a difference, though another message brings as many bytes too many") {
  const auto sim = group_and_message(7, {512, 512, 512}, {512, 512, 512});
  // The part's first half is nowhere; the message behind it has what is missing, on either cable.
  CHECK(differences(sim, group_and_message(7, {512, 0, 1024}, {512, 512, 512})).size() == 1);
  CHECK(differences(sim, group_and_message(7, {0, 512, 512}, {512, 512, 1024})).size() == 2);
  // Nor does the group's other part make up for it.
  CHECK(differences(sim, group_and_message(7, {0, 1024, 512}, {512, 512, 512})).size() == 1);
  CHECK(differences(sim, group_and_message(7, {0, 512, 512}, {768, 768, 512})).size() == 2);
  CHECK(differences(sim, group_and_message(7, {640, 384, 512}, {512, 512, 512})).size() == 1);
  // It is all there on the other cable.
  CHECK(differences(sim, group_and_message(7, {0, 512, 512}, {1024, 512, 512})).empty());
  CHECK(differences(sim, group_and_message(7, {512, 0, 896}, {512, 1024, 128})).empty());
  CHECK(differences(group_and_message(7, {0, 0, 0}, {1024, 1024, 1024}), sim).empty());
  CHECK(differences(group_and_message(7, {0, 512, 0}, {1024, 512, 1024}),
                    group_and_message(7, {512, 0, 256}, {512, 1024, 768}))
            .empty());
}

TEST_CASE("bytes that one striped message lacks and another one has too many are a difference") {
  const auto run = [](std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t d) {
    return std::vector<TracedMessage>{saying(1024 | kStriped, message(7, 0, a)),
                                      saying(1024 | kStriped, message(7, 1, b)), over_b(message(8, 0, c)),
                                      over_b(message(8, 1, d))};
  };
  CHECK(differences(run(512, 512, 512, 512), run(256, 640, 768, 384)).empty());
  CHECK(differences(run(512, 512, 512, 512), run(256, 640, 640, 512)).size() == 2);
}

TEST_CASE("several connections that stripe are cut at different places, whichever is taken for which") {
  const auto one = [](std::uint32_t qp, std::uint64_t cut) {
    return group_and_message(qp, {cut, 1024 - cut, cut}, {1024 - cut, cut, 1024 - cut});
  };
  CHECK(differences(both(one(7, 512), one(8, 256)), both(one(8, 128), one(7, 0))).empty());
  // Groups that look alike are held to their sums, and messages to theirs.
  CHECK(differences(both(one(7, 512), one(8, 256)),
                    both(one(7, 128), group_and_message(8, {384, 640, 512}, {640, 384, 640})))
            .size() > 0);
  // One that does not stripe beside one that does.
  const std::vector<TracedMessage> whole{saying(64, message(9, 0, 64)), saying(0, message(9, 1, 0)),
                                         saying(2, message(9, 2, 8))};
  CHECK(differences(both(one(7, 512), whole), both(whole, one(7, 0))).empty());
}

TEST_CASE("unlike connections with groups are held to what each of them lacks, whichever rails are whose") {
  const auto one = [](std::uint32_t qp, std::uint64_t cut) {
    return group_and_message(qp, {cut, 1024 - cut, cut}, {1024 - cut, cut, 1024 - cut});
  };
  // Its message is longer.
  const auto other = [](std::uint32_t qp, std::uint64_t cut, std::uint64_t missing = 0) {
    return group_and_message(qp, {cut - missing, 1024 - cut, cut}, {1024 - cut, cut, 4096 - cut}, 4096);
  };
  CHECK(differences(both(one(7, 512), other(8, 256)), both(other(8, 128), one(7, 64))).empty());
  CHECK(differences(both(one(7, 512), other(8, 256)), both(one(7, 256), other(8, 512))).empty());
  CHECK(
      differences(both(both(one(7, 512), one(9, 64)), other(8, 256)), both(both(one(7, 8), one(9, 16)), other(8, 512)))
          .empty());
  // What the one connection's group lacks the other one's has too many: together as many bytes.
  const auto more = group_and_message(7, {512 + 128, 512, 512}, {512, 512, 512});
  CHECK(differences(both(one(7, 512), other(8, 256)), both(more, other(8, 256, 128))).size() > 0);
}

TEST_CASE("rails that were laid when some messages were under way already carry the last ones") {
  const auto run = [](std::uint64_t cut) {
    return both({plain(message(7, 0, 4096)), saying(2, message(7, 1, 8)), saying(4096, message(7, 2, 4096))},
                {plain(message(7, 3, cut)), saying(2, message(7, 4, 8)), over_b(message(8, 0, 1024 - cut))});
  };
  CHECK(differences(run(256), run(512)).empty());
  std::vector<TracedMessage> early = run(512);
  early[0].payload_bytes = 3840;  // the first group's, which was not striped
  CHECK(differences(run(256), early).size() == 2);
}

TEST_CASE("runs agree whatever their queue pairs are numbered, in whatever order lines and connections come") {
  const std::vector<TracedMessage> sim{message(7, 0, 64), message(7, 1, 128), message(9, 0, 32)};
  const std::vector<TracedMessage> emu{message(17, 0, 32), message(18, 1, 128), message(18, 0, 64)};
  CHECK(differences(sim, emu).empty());
  CHECK(differences({}, {}).empty());
}

TEST_CASE("clear-to-sends may be written together or one by one; none may be missing, and data may not be cut so") {
  const std::vector<TracedMessage> data{message(7, 0, 64), message(7, 1, 64), message(7, 2, 64)};
  const auto with = [&](std::vector<std::uint64_t> writes) {
    std::vector<TracedMessage> run = data;
    for (std::uint64_t at = 0; at < writes.size(); ++at) run.push_back(back(plain(message(7, at, writes[at]))));
    return run;
  };
  CHECK(differences(with({32, 32, 32}), with({32, 64})).empty());
  CHECK(differences(with({96}), with({64, 32})).empty());
  CHECK(differences(with({32, 32, 32}), with({64})).size() == 1);
  CHECK(differences(with({32, 32}), with({32, 40})).size() == 1);
  // What ends in an immediate value is a message and its parts.
  const std::vector<TracedMessage> parts{plain(message(7, 0, 32)), plain(message(7, 1, 32)), message(7, 2, 8)};
  const std::vector<TracedMessage> whole{plain(message(7, 0, 64)), message(7, 1, 8)};
  CHECK(differences(parts, whole).size() == 1);
}

TEST_CASE("the first message that differs is named: by its size, its opcode, its end, or that it is missing") {
  const std::vector<TracedMessage> sim{message(7, 0, 64), message(7, 1, 128)};
  CHECK(differences(sim, {message(17, 0, 64), message(17, 1, 127)}) ==
        std::vector<std::string>{
            "rank 0 node0/a (::1) -> rank 1 node1/a (::2), message 1: sim has RDMA_WRITE_WITH_IMM of 128 bytes, "
            "emu has RDMA_WRITE_WITH_IMM of 127 bytes"});
  std::vector<TracedMessage> other = sim;
  other[0].opcode = 2;
  CHECK(differences(sim, other).at(0).find("message 0: sim has RDMA_WRITE_WITH_IMM of 64 bytes, emu has SEND of 64") !=
        std::string::npos);
  CHECK(differences(sim, {message(17, 0, 64)})
            .at(0)
            .find("message 1: sim has RDMA_WRITE_WITH_IMM of 128 bytes, emu has "
                  "nothing more (1 message)") != std::string::npos);
  CHECK(differences({}, sim).at(0).find("message 0: sim has nothing more (0 messages), emu has") != std::string::npos);
}

TEST_CASE("another NIC is another route: both sides are named") {
  std::vector<TracedMessage> emu{message(17, 0, 64)};
  emu[0].source = "node0/b";
  const auto found = differences({message(7, 0, 64)}, emu);
  REQUIRE(found.size() == 2);
  CHECK(found[0].rfind("rank 0 node0/a (::1) -> rank 1 node1/a (::2), message 0: sim has", 0) == 0);
  CHECK(found[1].rfind("rank 0 node0/b (::1) -> rank 1 node1/a (::2), message 0: sim has nothing more", 0) == 0);
}

TEST_CASE("another GID of the same NIC is another route") {
  std::vector<TracedMessage> emu{message(17, 0, 64)};
  emu[0].destination_gid = "fe80::2";
  CHECK(differences({message(7, 0, 64)}, emu).size() == 2);
}

TEST_CASE("an end that real hardware does not tell agrees with any") {
  CHECK(differences({message(7, 0, 64, 0)}, {message(17, 0, 64, kStatusUnknown)}).empty());
}

TEST_CASE("empty plain writes ask whether the way still stands: how many there are is chance") {
  TracedMessage probe = message(7, 1, 0);
  probe.opcode = kWrite;
  CHECK(differences({message(7, 0, 64), probe, message(7, 2, 32)}, {message(17, 0, 64), message(17, 1, 32)}).empty());
  probe.opcode = 1;  // with an immediate value it is a message of no bytes
  CHECK(differences({message(7, 0, 64), probe}, {message(17, 0, 64)}).size() == 1);
}

TEST_CASE("where connections broke, at whatever message, both runs must have got each message once") {
  // In sim the acknowledgement of the second message was lost with the cable: it had arrived and is not sent again.
  const std::vector<TracedMessage> sim{message(7, 0, 64), message(7, 1, 64, kRetriesRanOut),
                                       message(7, 2, 64, kFlushed), message(8, 0, 64)};
  const MessageComparison compared = broken(sim, broken_run(17));
  CHECK(compared.differences.empty());
  CHECK(compared.in_order == 0);
  REQUIRE(compared.by_arrival.size() == 1);
  CHECK(
      compared.by_arrival[0] ==
      "ranks 0 and 1 lost connections (sim: 2 messages failed, emu: 2); 0 -> 1: sim 2 messages with 128 bytes (and 2 "
      "whose acknowledgement did not come), emu 3 messages with 192 bytes (and 2 whose acknowledgement did not come)");
  // In the other world the cable came back in time.
  CHECK(broken({message(7, 0, 64), message(7, 1, 64), message(7, 2, 64)}, broken_run(17)).differences.empty());
}

TEST_CASE("where connections broke, a message that is lost is a difference") {
  std::vector<TracedMessage> emu = broken_run(17);
  emu.pop_back();
  emu.pop_back();  // one arrived for sure, and two more at most
  const std::vector<TracedMessage> sim{message(7, 0, 64), message(7, 1, 64), message(7, 2, 64), message(7, 3, 64)};
  CHECK(
      broken(sim, emu).differences ==
      std::vector<std::string>{"rank 0 -> rank 1, messages of 64 bytes: 4 arrived in sim, 1 to 3 in emu: one was lost, "
                               "or came twice"});
  // Bytes that are missing are not made up for by other messages.
  emu = broken_run(17);
  emu.back().payload_bytes = 32;
  CHECK(broken({message(7, 0, 64), message(7, 1, 64), message(7, 2, 64)}, emu).differences.size() == 1);
}

TEST_CASE("where connections broke, a message that came twice is a difference") {
  std::vector<TracedMessage> emu = broken_run(17);
  emu.push_back(message(18, 2, 64));
  CHECK(
      broken({message(7, 0, 64), message(7, 1, 64), message(7, 2, 64)}, emu).differences ==
      std::vector<std::string>{"rank 0 -> rank 1, messages of 64 bytes: 3 arrived in sim, 4 to 6 in emu: one was lost, "
                               "or came twice"});
}

TEST_CASE("a connection that was left before anything failed on it is known by its port, in either direction") {
  const std::vector<TracedMessage> sim{message(7, 0, 64), message(7, 1, 64)};
  const std::vector<TracedMessage> emu{message(17, 0, 64), message(18, 0, 64), back(message(18, 0, 16))};
  CHECK(broken(sim, emu).differences.size() == 3);
  const MessageComparison compared = compare_messages({.name = "sim", .messages = sim, .cut_ports = {}},
                                                      {.name = "emu", .messages = emu, .cut_ports = {"node1/a"}});
  CHECK(compared.by_arrival.size() == 1);
  CHECK(compared.differences ==
        std::vector<std::string>{"rank 1 -> rank 0, messages of 16 bytes: 0 arrived in sim, 1 in emu: one was lost, or "
                                 "came twice"});
}

TEST_CASE("clear-to-sends come more often where connections broke, and are not counted there") {
  std::vector<TracedMessage> emu = broken_run(17);
  TracedMessage clear = back(message(18, 0, 32));
  clear.opcode = kWrite;
  emu.push_back(clear);
  CHECK(broken({message(7, 0, 64), message(7, 1, 64), message(7, 2, 64)}, emu).differences.empty());
}

TEST_CASE("ranks whose connections held are compared message by message beside those whose did not") {
  std::vector<TracedMessage> sim{message(7, 0, 64), message(7, 1, 64), message(7, 2, 64)};
  std::vector<TracedMessage> emu = broken_run(17);
  sim.push_back(between(1, 2, message(9, 0, 8)));
  emu.push_back(between(1, 2, message(19, 0, 8)));
  CHECK(broken(sim, emu).differences.empty());
  CHECK(broken(sim, emu).in_order == 1);
  emu.back().payload_bytes = 9;
  CHECK(broken(sim, emu).differences.size() == 1);
  CHECK(broken(sim, emu).differences.at(0).rfind("rank 1 node0/a", 0) == 0);
}

TEST_CASE("a trace file is read by the names of its columns, and its errors have file and line") {
  const std::string path = scratch_folder("trace_file") + "/messages.csv";
  const auto read = [&](const std::string& text) {
    std::ofstream(path) << text;
    try {
      return std::to_string(read_trace_file(path).size());
    } catch (const std::runtime_error& error) {
      return std::string(error.what()).substr(path.size());
    }
  };
  const std::string header =
      "opcode,payload_bytes,source_rank,destination_rank,source,destination,source_gid,destination_gid,source_qp,"
      "destination_qp,"
      "sequence,status,immediate\n";
  CHECK(read(header + "1,64,0,1,node0/a,node1/a,::1,::2,7,8,0,0,3\n") == "1");
  CHECK(read(header) == "0");
  CHECK(read(header + "1,64,0\n") == ":2: 3 columns where the header has 13");
  CHECK(read(header + "1,x,0,1,node0/a,node1/a,::1,::2,7,8,0,0,3\n") ==
        ":2: payload_bytes: \"x\" is not such a number");
  CHECK(read("opcode\n1\n") == ":1: there is no column source_rank");
  CHECK(read("") == ": cannot be read; run it again without --no-trace");
}

}  // namespace compare_test
