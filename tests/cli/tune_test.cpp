#include "cli/command/tools/tune.h"

#include <doctest/doctest.h>

#include <sstream>

#include "cli/command/commands.h"
#include "plugin/net/process/config.h"

namespace tune_test {

using namespace meshbed;
using namespace meshbed::testbed;

namespace {

const std::string kRing4 = std::string(MESHBED_SOURCE_DIR) + "/scenarios/ring4.toml";

}  // namespace

TEST_CASE("tune: a row for each run of equal winners, from zero to no end, without a gap") {
  const std::vector<Winner> winners = {{64, coll::Algorithm::kDirect, coll::Protocol::kSimple},
                                       {128, coll::Algorithm::kDirect, coll::Protocol::kSimple},
                                       {256, coll::Algorithm::kDirect, coll::Protocol::kLl128},
                                       {512, coll::Algorithm::kRing, coll::Protocol::kLl128}};
  const coll::TuningTable rows = rows_of(coll::Collective::kAllReduce, 4, winners);
  std::string text;
  for (const auto& row : rows) text += to_text(row);
  CHECK(text ==
        "allreduce,0,128,direct,simple,-1,-1,4,-1,-1\n"
        "allreduce,129,256,direct,ll128,-1,-1,4,-1,-1\n"
        "allreduce,257,9223372036854775807,ring,ll128,-1,-1,4,-1,-1\n");
  CHECK(*coll::parse_tuning(text) == rows);
  CHECK(rows_of(coll::Collective::kAllReduce, 4, {}).empty());
}

TEST_CASE("tune: what cannot be tuned is refused with what can") {
  std::ostringstream out, err;
  CHECK_THROWS_WITH(tune_command({kRing4, "--collective", "sendrecv"}, out, err),
                    doctest::Contains("accepted: all_reduce, all_gather"));
  CHECK_THROWS(tune_command({"scenarios/none.toml"}, out, err));
  CHECK_THROWS(tune_command({kRing4, "-f", "1"}, out, err));
  CHECK_THROWS_WITH(tune_command({kRing4, "--out", "/proc/none/table.csv"}, out, err),
                    doctest::Contains("cannot write /proc/none/table.csv"));
}

TEST_CASE("the engine counts messages as striped from the size on from which the transport stripes them") {
  const auto& stripe_bytes = net::kVariables[static_cast<std::size_t>(net::Variable::kStripeBytes)];
  CHECK(stripe_bytes.default_value == static_cast<std::int64_t>(coll::kStripedFromBytes));
}

}  // namespace tune_test
