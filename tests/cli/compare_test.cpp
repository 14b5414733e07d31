// Two runs joined message by message.
#include "cli/compare.h"

#include <doctest/doctest.h>

#include <fstream>
#include <stdexcept>

#include "tests/support/command.h"

using namespace meshbed::cli;
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
  return compare_messages(sim, emu, "sim", "emu");
}

}  // namespace

TEST_CASE("runs agree whatever their queue pairs are numbered, in whatever order lines and connections come") {
  const std::vector<TracedMessage> sim{message(7, 0, 64), message(7, 1, 128), message(9, 0, 32)};
  const std::vector<TracedMessage> emu{message(17, 0, 32), message(18, 1, 128), message(18, 0, 64)};
  CHECK(differences(sim, emu).empty());
  CHECK(differences({}, {}).empty());
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
  other = sim;
  other[1].status = 12;
  CHECK(differences(sim, other).at(0).find("emu has RDMA_WRITE_WITH_IMM of 128 bytes, status 12") != std::string::npos);
  CHECK(differences(sim, {message(17, 0, 64)})
            .at(0)
            .find("message 1: sim has RDMA_WRITE_WITH_IMM of 128 bytes, emu has "
                  "nothing more (1 messages)") != std::string::npos);
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
  CHECK(differences({message(7, 0, 64, 0)}, {message(17, 0, 64, kStatusNotTold)}).empty());
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
      "sequence,status\n";
  CHECK(read(header + "1,64,0,1,node0/a,node1/a,::1,::2,7,8,0,0\n") == "1");
  CHECK(read(header) == "0");
  CHECK(read(header + "1,64,0\n") == ":2: 3 columns where the header has 12");
  CHECK(read(header + "1,x,0,1,node0/a,node1/a,::1,::2,7,8,0,0\n") == ":2: payload_bytes: \"x\" is not such a number");
  CHECK(read("opcode\n1\n") == ":1: there is no column source_rank");
  CHECK(read("") == ": cannot be read; run it again without --no-trace");
}
