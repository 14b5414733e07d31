// Ranks that do not call the same operation: each of them learns what every one called.
#include <doctest/doctest.h>

#include <set>
#include <vector>

#include "plugin/coll/plan/signature.h"
#include "plugin/coll/store/call_ledger.h"
#include "plugin/coll/store/store_client.h"
#include "plugin/coll/store/store_server.h"
#include "tests/coll/rank_threads.h"

namespace mismatch_test {

using namespace meshbed;
using namespace meshbed::coll;
using namespace meshbed::test;

namespace {

CallSignature all_reduce(std::uint64_t number, std::uint64_t count = 1U << 18U, ReduceOp op = ReduceOp::kSum,
                         DataType type = DataType::kFloat32) {
  return signature_of(number, Collective::kAllReduce, type, op, 0, count);
}
CallSignature broadcast(std::uint64_t number, int root = 0) {
  return signature_of(number, Collective::kBroadcast, DataType::kFloat32, ReduceOp::kSum, root, 1U << 18U);
}

}  // namespace

TEST_CASE("each field of a call alone changes the tag of its messages, and no pair's tag is one") {
  const CallSignature one = all_reduce(1);
  std::vector<CallSignature> others{all_reduce(2),
                                    all_reduce(1, (1U << 18U) + 1),
                                    all_reduce(1, 1U << 18U, ReduceOp::kMax),
                                    all_reduce(1, 1U << 18U, ReduceOp::kSum, DataType::kInt32),
                                    broadcast(1),
                                    broadcast(1, 1)};
  std::set<int> tags{tag_of(one)};
  for (const CallSignature& other : others) tags.insert(tag_of(other));
  CHECK(tags.size() == others.size() + 1);
  for (const int tag : tags) CHECK(tag >= 1 << 30);
  std::set<int> numbered, counted;
  for (std::uint64_t at = 0; at < 1U << 17U; ++at) {
    numbered.insert(tag_of(all_reduce(at)));
    counted.insert(tag_of(all_reduce(1, at)));
  }
  CHECK(numbered.size() == 1U << 17U);
  CHECK(counted.size() == 1U << 17U);
}

TEST_CASE("a root of an operation without one, and a reduction of one that only moves, are not compared") {
  const auto gathered = [](ReduceOp op, int root) {
    return signature_of(1, Collective::kAllGather, DataType::kFloat32, op, root, 3);
  };
  CHECK(gathered(ReduceOp::kSum, 0) == gathered(ReduceOp::kMax, 2));
  CHECK(to_text(gathered(ReduceOp::kMax, 2)) == "all_gather 1, 12 bytes float");
  CHECK(to_text(broadcast(2, 1)) == "broadcast 2, 1 MiB float, root 1");
  CHECK(to_text(all_reduce(3, 256)) == "all_reduce 3, 1 KiB float sum");
}

TEST_CASE("calls travel as they are, and what is no report is refused") {
  const std::vector<CallSignature> calls{pairs_signature(), barrier_signature(7), broadcast(6, 3), all_reduce(5)};
  const std::string text = encode_calls(calls);
  CHECK(decode_calls(text).value() == calls);
  CHECK(decode_calls("").value().empty());
  CHECK_FALSE(decode_calls(text.substr(1)).has_value());
  for (std::size_t at = 20; at < 24; ++at) {
    std::string wrong = text;
    wrong[at] = '\x7f';
    CHECK_FALSE(decode_calls(wrong).has_value());
  }
  CHECK(decode_calls(encode_calls(std::vector<CallSignature>(40, calls[2]))).value().size() == kCallsReported);
}

TEST_CASE("a rank that calls another operation is named beside the others, once all have reported") {
  CallLedger ledger(3);
  ledger.report(0, 2, {all_reduce(1)});
  CHECK_FALSE(ledger.find().has_value());
  ledger.report(2, 0, {broadcast(1)});
  REQUIRE(ledger.find().has_value());
  CHECK_FALSE(ledger.is_complete());
  ledger.report(1, 0, {all_reduce(1)});
  CHECK(ledger.is_complete());
  CHECK(ledger.find()->text ==
        "the ranks do not call the same operation: rank 2: broadcast 1, 1 MiB float, root 0; ranks 0, 1: all_reduce 1, "
        "1 MiB float sum");
  CHECK(ledger.find()->culprit == 2);
  ledger.forget(2);
  CHECK_FALSE(ledger.find().has_value());
}

TEST_CASE("an operation that a rank has ended differs as well, and a rank that is only ahead does not") {
  CallLedger ledger(2);
  ledger.report(0, 1, {all_reduce(3)});
  ledger.report(1, 0, {all_reduce(4), all_reduce(3), all_reduce(2)});
  CHECK_FALSE(ledger.find().has_value());
  ledger.report(1, 0, {all_reduce(4), broadcast(3), all_reduce(2)});
  REQUIRE(ledger.find().has_value());
  CHECK(ledger.find()->text.find("broadcast 3") != std::string::npos);
}

TEST_CASE("a rank that leaves early is what the others wait for") {
  CallLedger ledger(3);
  ledger.leave(1);
  CHECK_FALSE(ledger.find().has_value());
  ledger.report(0, 2, {all_reduce(5), all_reduce(4)});
  CHECK_FALSE(ledger.find().has_value());  // rank 2 may be about to come
  ledger.report(2, 1, {all_reduce(5), all_reduce(4)});
  REQUIRE(ledger.find().has_value());
  CHECK(ledger.find()->culprit == 1);
  CHECK(ledger.find()->text ==
        "the ranks do not call the same operation: rank 1: has left; ranks 0, 2: all_reduce 5, 1 MiB float sum");
}

TEST_CASE("pairs and a collective that wait for each other never end; pairs alone may") {
  CallLedger ledger(2);
  ledger.report(0, 1, {all_reduce(2), all_reduce(1)});
  ledger.report(1, 0, {pairs_signature(), all_reduce(1)});
  REQUIRE(ledger.find().has_value());
  CHECK(ledger.find()->text.find("send_recv with rank 0 after all_reduce 1") != std::string::npos);
  ledger.report(0, 1, {pairs_signature(), all_reduce(1)});
  CHECK_FALSE(ledger.find().has_value());
}

TEST_CASE("rank 0's store fails all ranks with what each of them called") {
  const std::string address = free_address();
  auto server = StoreServer::start(
      {.address = *parse_address(address), .identity = {.world = 3, .channels = 1, .steps = 8}, .linger_ms = 2000});
  REQUIRE(server.has_value());
  std::vector<std::unique_ptr<StoreClient>> clients;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    auto client =
        StoreClient::connect(address, {.world = 3, .rank = rank, .channels = 1, .steps = 8}, Deadline::after_ms(5000));
    REQUIRE(client.has_value());
    const CallSignature call = rank == 1 ? all_reduce(1, 1U << 18U, ReduceOp::kMax) : all_reduce(1);
    (*client)->report_calls_by([call] { return encode_calls({call}); });
    clients.push_back(std::move(*client));
  }
  for (auto& client : clients) REQUIRE(client->tell_waiting(0).has_value());
  for (auto& client : clients) {
    const Deadline deadline = Deadline::after_ms(20000);
    while (!client->failure() && !deadline.passed()) REQUIRE(client->poll(deadline.remaining_ms()).has_value());
    REQUIRE(client->failure().has_value());
    CHECK(*client->failure() ==
          "the ranks do not call the same operation: rank 1: all_reduce 1, 1 MiB float max; ranks 0, 2: all_reduce 1, "
          "1 MiB float sum");
    CHECK(client->failed_rank() == 1);
  }
}

}  // namespace mismatch_test
