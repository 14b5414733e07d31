#include "cli/command/tools/tune.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>

#include "cli/bench/bench_measure.h"
#include "cli/command/commands.h"
#include "testbed/base/files.h"
#include "testbed/workload/result.h"

namespace tune_test {

using namespace meshbed;
using namespace meshbed::testbed;

namespace {

const std::string kRing4 = std::string(MESHBED_SOURCE_DIR) + "/scenarios/ring4.toml";

/// Its exit status, and what it wrote.
int tune(const Arguments& words, std::string& out, std::string& err) {
  std::ostringstream wrote, said;
  const int status = tune_command(words, wrote, said);
  out = wrote.str();
  err = said.str();
  return status;
}

}  // namespace

TEST_CASE("tune: on a ring of four the cables win, the table says so, and runs go by it") {
  std::string out, err;
  const Arguments words = {kRing4, "--collective", "all_reduce", "-b", "64K", "-e", "64K"};
  REQUIRE(tune(words, out, err) == kExitOk);
  CHECK(out.find("# ring4, 4 ranks, simulated") != std::string::npos);
  CHECK(err.find("ring, simple:") != std::string::npos);
  CHECK(out.find("\nallreduce,0,9223372036854775807,torus,simple,-1,-1,4,-1,-1\n") != std::string::npos);
  std::string again;
  REQUIRE(tune(words, again, err) == kExitOk);
  CHECK(again == out);

  const auto table = std::filesystem::temp_directory_path() / ("meshbed-tune-" + std::to_string(::getpid()) + ".csv");
  const auto time_us = [&](const std::vector<std::string>& settings) {
    std::vector<std::string> overrides{"workload.bytes=64K", "workload.warmup=1", "workload.iterations=1"};
    overrides.insert(overrides.end(), settings.begin(), settings.end());
    return simulated_us(read_scenario(kRing4, overrides), "ring4");
  };
  const auto by_table = [&](const std::string& text) {
    write_text_file(table.string(), text);
    return time_us({"workload.algorithm=auto", "workload.protocol=auto", "workload.tuning=" + table.string()});
  };
  const double torus_us = time_us({"workload.algorithm=torus"});
  const double ll_us = time_us({"workload.algorithm=ring", "workload.protocol=ll"});
  CHECK(by_table(out) == torus_us);
  CHECK(by_table("allreduce,0,100000,ring,ll,-1,-1,-1\n") == ll_us);
  CHECK(ll_us > time_us({"workload.algorithm=ring"}));
  CHECK(ll_us != torus_us);
  std::filesystem::remove(table);
}

TEST_CASE("tune: a scenario that goes by a table already is tuned anew, whatever its type") {
  const auto folder = std::filesystem::temp_directory_path() / ("meshbed-tune-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  write_text_file((folder / "old.csv").string(), "allreduce,0,100000,ring,ll,-1,-1,-1\n");
  write_text_file(
      (folder / "pair.toml").string(),
      "[topology]\nkind = \"ring\"\nnodes = 3\n[workload]\ndtype = \"f8e4m3\"\ncollective = \"all_gather\"\n"
      "bytes = 6\nalgorithm = \"auto\"\ntuning = \"old.csv\"\n");
  std::string out, err;
  const std::string table = (folder / "new" / "table.csv").string();
  const Arguments words = {
      (folder / "pair.toml").string(), "--collective", "all_reduce", "-b", "4K", "-e", "4K", "--out", table};
  REQUIRE(tune(words, out, err) == kExitOk);
  CHECK(out.empty());
  CHECK(coll::parse_tuning(read_text_file(table))->size() == 1);
  std::filesystem::remove_all(folder);
}

}  // namespace tune_test
