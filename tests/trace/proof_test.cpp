#include "sim/trace/proof.h"

#include <doctest/doctest.h>

namespace proof_test {

using namespace meshbed;
using namespace meshbed::sim;

namespace {

bool names(const Proof& proof, const std::string& item) { return proof.detail.find(item) != std::string::npos; }

Link good_link() {
  return Link{.name = "node0/a>node1/b",
              .rate_bps = 100'000'000'000,
              .bytes_in = 12'500,
              .bytes_out = 12'500,
              .busy_ps = kPicosecondsPerMicrosecond};
}

/// Two nodes with two NICs each and one cable, between the first ones; both second NICs on a switch.
models::Cluster two_nodes() {
  models::Cluster cluster;
  for (int index = 0; index < 2; ++index) {
    models::Node node;
    node.name = "node" + std::to_string(index);
    node.nics.resize(2);
    node.nics[0].device = "left";
    node.nics[1].device = "right";
    cluster.nodes.push_back(node);
  }
  cluster.cables.push_back({.name = "cable0", .a = {0, 0}, .b = {1, 0}});
  cluster.switches.push_back({.name = "switch0", .ports = {{0, 1}, {1, 1}}});
  return cluster;
}

}  // namespace

TEST_CASE("a time below its bound breaks the proof, a time at the bound keeps it") {
  CHECK(bound_kept("bound", 1000, 1000).ok);
  CHECK_FALSE(bound_kept("bound", 999, 1000).ok);
}

TEST_CASE("a link that lost a byte is named") {
  std::vector<Link> links{good_link(), good_link()};
  CHECK(bytes_conserved(links).ok);
  links[1].name = "node1/b>node0/a";
  links[1].bytes_out -= 1;
  const Proof proof = bytes_conserved(links);
  CHECK_FALSE(proof.ok);
  CHECK(names(proof, "node1/b>node0/a"));
  // Of a queue pair that was given up, on a slow link: the byte is not lost.
  links[1].bytes_under_way = 1;
  CHECK(bytes_conserved(links).ok);
  CHECK(names(bytes_conserved(links), "1 more under way at the end"));
}

TEST_CASE("a link that was busy for longer than the run lasted is named") {
  std::vector<Link> links{good_link()};
  CHECK(utilisation_possible(links, kPicosecondsPerMicrosecond, 1).ok);
  const Proof proof = utilisation_possible(links, kPicosecondsPerMicrosecond - 1, 1);
  CHECK_FALSE(proof.ok);
  CHECK(names(proof, "node0/a>node1/b"));
}

TEST_CASE("a link that carried more than its rate allows while it was busy is named") {
  std::vector<Link> links{good_link()};
  links[0].bytes_in = links[0].bytes_out = 12'501;  // 80 ps too much
  CHECK_FALSE(utilisation_possible(links, kPicosecondsPerMicrosecond, 1).ok);
  CHECK(utilisation_possible(links, kPicosecondsPerMicrosecond, 80).ok);
}

TEST_CASE("a message that was executed twice, and one that never completed, break the proof") {
  MessageTotals totals;
  totals.messages = totals.succeeded = 5;
  CHECK(sends_matched(totals, 0).ok);
  CHECK_FALSE(sends_matched(totals, 1).ok);
  totals.unmatched = 1;
  totals.first_unmatched = "rank 0 -> rank 1, message 3";
  const Proof proof = sends_matched(totals, 0);
  CHECK_FALSE(proof.ok);
  CHECK(names(proof, "message 3"));
}

TEST_CASE("a message between ports that no cable and no switch joins breaks the proof") {
  const models::Cluster cluster = two_nodes();
  std::map<PairKey, PairUsage> pairs;
  pairs[{0, 1, {0, 0}, {1, 0}}].messages = 1;  // cable
  pairs[{0, 1, {0, 1}, {1, 1}}].messages = 1;  // switch
  pairs[{0, 2, {0, 0}, {0, 0}}].messages = 1;  // loopback: two ranks of one node
  CHECK(subnets_true(cluster, pairs).ok);
  pairs[{1, 0, {1, 0}, {0, 1}}].messages = 1;
  const Proof proof = subnets_true(cluster, pairs);
  CHECK_FALSE(proof.ok);
  CHECK(names(proof, "node1/left"));
  CHECK(names(proof, "node0/right"));
}

TEST_CASE("wrong elements break the proof, and so does a check that never happened") {
  CHECK(data_right(0, 10, true).ok);
  CHECK(data_right(0, 0, false).ok);
  CHECK_FALSE(data_right(1, 10, true).ok);
  CHECK_FALSE(data_right(0, 0, true).ok);
}

TEST_CASE("a proof without anything to look at is neither kept nor broken, and says why") {
  const Link idle{.name = "node0/a>node1/b", .rate_bps = 100'000'000'000};
  for (const Proof& proof :
       {bound_kept("bound", 1000, 0), bytes_conserved({idle}), utilisation_possible({idle}, 1000, 0),
        sends_matched(MessageTotals{}, 0), subnets_true(two_nodes(), {}), data_right(0, 0, false)}) {
    CHECK_MESSAGE(!proof.checked, proof.name);
    CHECK_MESSAGE(names(proof, "nothing to check"), proof.name, ": ", proof.detail);
    CHECK(all_ok({proof}));
  }
  CHECK(bound_kept("bound", 1000, 1000).checked);
}

TEST_CASE("a plugin that is not the file on disk breaks the proof") {
  CHECK(same_file("aa", "aa").ok);
  CHECK_FALSE(same_file("aa", "ab").ok);
  CHECK_FALSE(same_file("", "").ok);
}

}  // namespace proof_test
