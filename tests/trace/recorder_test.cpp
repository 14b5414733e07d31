#include "sim/trace/recorder.h"

#include <doctest/doctest.h>
#include <infiniband/verbs.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace recorder_test {

using namespace meshbed;
using namespace meshbed::sim;

namespace {

models::Cluster pair_cluster() {
  models::Cluster cluster;
  for (const char* name : {"node0", "node1"}) {
    models::Node node;
    node.name = name;
    node.nics.resize(1);
    node.nics[0].device = "mlx5_0";
    cluster.nodes.push_back(node);
  }
  return cluster;
}

MessageRecord good_message() {
  return MessageRecord{.posted_ps = 10,
                       .started_ps = 20,
                       .delivered_ps = 30,
                       .completed_ps = 40,
                       .payload_bytes = 4096,
                       .wire_bytes = 4194,
                       .sequence = 7,
                       .source_rank = 0,
                       .destination_rank = 1,
                       .source = {0, 0},
                       .destination = {1, 0},
                       .source_gid = models::gid_of({.bytes = {192, 168, 100, 1}}),
                       .destination_gid = {},
                       .source_qp = 0x11,
                       .destination_qp = 0x12,
                       .opcode = IBV_WR_RDMA_WRITE,
                       .status = IBV_WC_SUCCESS,
                       .tries = 1,
                       .deliveries = 1};
}

std::string digest_of(const MessageRecord& record) {
  Digest digest;
  digest.add(record);
  return digest.hex();
}

}  // namespace

TEST_CASE("the digest changes with every field of a message") {
  const std::string same = digest_of(good_message());
  CHECK(digest_of(good_message()) == same);
  const auto changed = [&](auto&& change) {
    MessageRecord record = good_message();
    change(record);
    return digest_of(record) != same;
  };
  CHECK(changed([](auto& r) { ++r.posted_ps; }));
  CHECK(changed([](auto& r) { ++r.started_ps; }));
  CHECK(changed([](auto& r) { ++r.delivered_ps; }));
  CHECK(changed([](auto& r) { ++r.completed_ps; }));
  CHECK(changed([](auto& r) { ++r.payload_bytes; }));
  CHECK(changed([](auto& r) { ++r.wire_bytes; }));
  CHECK(changed([](auto& r) { ++r.sequence; }));
  CHECK(changed([](auto& r) { r.source_rank = 1; }));
  CHECK(changed([](auto& r) { r.destination_rank = 0; }));
  CHECK(changed([](auto& r) { r.source.nic = 1; }));
  CHECK(changed([](auto& r) { r.destination.node = 0; }));
  CHECK(changed([](auto& r) { ++r.source_qp; }));
  CHECK(changed([](auto& r) { ++r.destination_qp; }));
  CHECK(changed([](auto& r) { ++r.opcode; }));
  CHECK(changed([](auto& r) { ++r.status; }));
  CHECK(changed([](auto& r) { ++r.tries; }));
  CHECK(changed([](auto& r) { ++r.deliveries; }));
}

TEST_CASE("the digest depends on the order of messages and on where a text ends") {
  MessageRecord second = good_message();
  second.sequence = 8;
  Digest forth, back, left, right;
  forth.add(good_message());
  forth.add(second);
  back.add(second);
  back.add(good_message());
  CHECK(forth.hex() != back.hex());
  left.add(std::string_view("ab"));
  left.add(std::string_view("c"));
  right.add(std::string_view("a"));
  right.add(std::string_view("bc"));
  CHECK(left.hex() != right.hex());
  CHECK(left.hex().size() == 16);
}

TEST_CASE("both directions of one queue pair are one connection and two pairs") {
  const models::Cluster cluster = pair_cluster();
  Recorder recorder(cluster, "");
  MessageRecord back = good_message();
  std::swap(back.source, back.destination);
  std::swap(back.source_qp, back.destination_qp);
  std::swap(back.source_rank, back.destination_rank);
  recorder.message(good_message());
  recorder.message(good_message());
  recorder.message(back);
  CHECK(recorder.connections() == 1);
  REQUIRE(recorder.pairs().size() == 2);
  CHECK(recorder.pairs().begin()->second.messages == 2);
  CHECK(recorder.pairs().begin()->second.payload_bytes == 8192);
  CHECK(recorder.totals().messages == 3);
}

TEST_CASE("a message whose responder is gone when it is acknowledged still belongs to that rank") {
  const models::Cluster cluster = pair_cluster();
  Recorder recorder(cluster, "");
  MessageRecord last = good_message();
  last.destination_rank = -1;
  recorder.message(good_message());
  recorder.message(last);
  REQUIRE(recorder.pairs().size() == 1);
  CHECK(recorder.pairs().begin()->first.destination_rank == 1);
  CHECK(recorder.pairs().begin()->second.messages == 2);

  // Also where only the other direction has recorded it.
  Recorder other(cluster, "");
  MessageRecord back = good_message();
  std::swap(back.source, back.destination);
  std::swap(back.source_qp, back.destination_qp);
  std::swap(back.source_rank, back.destination_rank);
  other.message(back);
  other.message(last);
  CHECK(other.pairs().count({0, 1, {0, 0}, {1, 0}}) == 1);
}

TEST_CASE("an acknowledged message that was executed twice is named; a flushed one is not held against the run") {
  const models::Cluster cluster = pair_cluster();
  Recorder recorder(cluster, "");
  MessageRecord flushed = good_message();
  flushed.status = IBV_WC_WR_FLUSH_ERR;
  flushed.deliveries = 0;
  recorder.message(flushed);
  CHECK(recorder.totals().unmatched == 0);
  MessageRecord twice = good_message();
  twice.deliveries = 2;
  recorder.message(twice);
  CHECK(recorder.totals().unmatched == 1);
  CHECK(recorder.totals().first_unmatched ==
        "rank 0 node0/mlx5_0 -> rank 1 node1/mlx5_0, message 7 of QP 0x11 was executed 2 times");
}

TEST_CASE("messages.csv has one line for each message under its heading") {
  const models::Cluster cluster = pair_cluster();
  const std::string path = std::string(MESHBED_BINARY_DIR) + "/recorder_test_messages.csv";
  {
    Recorder recorder(cluster, path);
    recorder.message(good_message());
  }
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  CHECK(text ==
        "posted_ps,started_ps,delivered_ps,completed_ps,source_rank,destination_rank,source,destination,source_gid,"
        "destination_gid,source_qp,destination_qp,sequence,opcode,payload_bytes,wire_bytes,status,tries,deliveries,"
        "immediate\n"
        "10,20,30,40,0,1,node0/mlx5_0,node1/mlx5_0,::ffff:192.168.100.1,::,17,18,7,0,4096,4194,0,1,1,0\n");
}

TEST_CASE("a trace that cannot be written is an error, not a run without a trace") {
  const models::Cluster cluster = pair_cluster();
  CHECK_THROWS_WITH_AS(Recorder(cluster, "/nowhere/at/all.csv"),
                       "cannot write /nowhere/at/all.csv: No such file or directory", std::runtime_error);
  Recorder full(cluster, "/dev/full");
  full.message(good_message());
  CHECK_THROWS_AS(full.close(), std::runtime_error);
}

}  // namespace recorder_test
