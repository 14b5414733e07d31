// meshbed sweep: one command, one table; what was run is kept, and resumed with the same bytes.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "testbed/base/files.h"
#include "tests/support/command.h"

namespace sweep_command_test {

using namespace meshbed::test;
using meshbed::testbed::read_text_file;
using nlohmann::json;

namespace {

CommandResult sweep(const std::string& arguments) {
  return run_command_line(meshbed_program() + " sweep " + arguments + " 2>&1");
}

json points_of(const std::string& folder) { return json::parse(read_text_file(folder + "/sweep.json")).at("points"); }

}  // namespace

TEST_CASE("sizes by kinds, intact and without each cable: a row for each point, and run's own figures in it") {
  const std::string folder = scratch_folder("sweep_kinds");
  const CommandResult swept =
      sweep(scenario_file("ring4") + " --vary workload.bytes=64K,256K --vary " +
            "topology.kind=ring,switch --fail each-cable --csv " + folder + "/s.csv --results " + folder);
  CHECK(swept.status == 0);
  CHECK(swept.output.find("20 points, 12 ok") != std::string::npos);
  const json points = points_of(folder);
  REQUIRE(points.size() == 20);
  CHECK(points[0].at("ratio_baseline") == 1.0);
  CHECK(points[1].at("failed") == "node0-node1");
  CHECK(points[1].at("ratio_baseline").get<double>() > 1.5);
  CHECK(points[6].at("failed") == "node0-switch0");
  CHECK(points[6].at("status") == "unreachable");
  CHECK(points[6].at("time_us").is_null());
  CHECK(points[6].at("reason").get<std::string>().find("no path") != std::string::npos);
  CHECK(read_text_file(folder + "/s.csv") == read_text_file(folder + "/sweep.csv"));
  const json single =
      json::parse(run_command_line(meshbed_program() + " run --json --no-trace --no-expect " + scenario_file("ring4") +
                                   " --set workload.bytes=256K --results " + folder + " 2>/dev/null")
                      .output);
  CHECK(points[10].at("time_us").get<double>() * 1e3 == doctest::Approx(single.at("time_ns").get<double>()));
  CHECK(points[10].at("busbw_GBps") == single.at("busbw_GBps"));
}

TEST_CASE("nodes, NICs and pairs out, from the start and during the run") {
  const std::string folder = scratch_folder("sweep_nodes");
  const std::string ring = scenario_file("ring4") + " --set workload.bytes=64K --results " + folder;
  CHECK(sweep(ring + " --fail each-node").status == 0);
  json points = points_of(folder);
  REQUIRE(points.size() == 5);
  for (const json& point : points) CHECK(point.at("status") == "ok");  // three ranks in a line are left
  CHECK(sweep(ring + " --fail each-node --fail-at 250us").status == 0);
  points = points_of(folder);
  CHECK(points[1].at("status") == "failed");  // a dead rank
  CHECK(points[1].at("reason").get<std::string>().find("rank") != std::string::npos);
  CHECK(sweep(ring + " --fail pairs").status == 0);
  points = points_of(folder);
  REQUIRE(points.size() == 7);
  int unreachable = 0;
  for (const json& point : points) unreachable += point.at("status") == "unreachable" ? 1 : 0;
  CHECK(unreachable == 6);  // two cables less cut a ring in two
  CHECK(sweep(ring + " --fail pairs --strict").status == 1);
}

TEST_CASE("faults, points from a file, what stands together, and a baseline by name") {
  const std::string folder = scratch_folder("sweep_axes");
  const std::string pair = scenario_file("pair") + " --set workload.bytes=64K --results " + folder;
  CHECK(sweep(pair + " --vary 'fault=[loss,target=node0-node1,at=0s,loss=0.01],none' --baseline fault=none").status ==
        0);
  json points = points_of(folder);
  REQUIRE(points.size() == 2);
  CHECK(points[1].at("ratio_baseline") == 1.0);
  std::ofstream(folder + "/points.csv") << "workload.bytes,seed\n4K,1\n8K,2\n";
  CHECK(sweep(scenario_file("pair") + " --points " + folder + "/points.csv --results " + folder).status == 0);
  CHECK(points_of(folder).size() == 2);
  CHECK(sweep(pair + " --vary workload.bytes=4K,8K --vary seed=1,2 --zip").status == 0);
  points = points_of(folder);
  REQUIRE(points.size() == 2);
  CHECK(points[1].at("workload.bytes") == "8K");
  CHECK(points[1].at("seed") == "2");
}

TEST_CASE("cabling files: each one's machines with the scenario's workload; a resumed sweep sees that a file changed") {
  const std::string folder = scratch_folder("sweep_cablings");
  const std::string own = folder + "/own.toml";
  std::ofstream(own) << "[topology]\nkind = \"line\"\nnodes = 3\n[workload]\nbytes = \"8M\"\n";
  const std::string command = scenario_file("ring4") +
                              " --set workload.bytes=256K --vary cabling=" + scenario_file("ring4") + "," +
                              scenario_file("star5") + "," + own + " --results " + folder;
  CHECK(sweep(command).status == 0);
  const json points = points_of(folder);
  REQUIRE(points.size() == 3);
  for (const json& point : points) CHECK(point.at("status") == "ok");
  const json alone = json::parse(run_command_line(meshbed_program() + " run --json --no-trace --set expect={} " +
                                                  scenario_file("ring4") + " --set cabling=" + own +
                                                  " --set workload.bytes=256K --results " + folder + " 2>/dev/null")
                                     .output);
  CHECK(alone.at("ranks") == 3);
  CHECK(points[2].at("time_us").get<double>() * 1e3 == doctest::Approx(alone.at("time_ns").get<double>()));
  CHECK(sweep(command + " --resume").output.find("3 of them resumed") != std::string::npos);
  std::ofstream(own, std::ios::app) << "# another\n";
  CHECK(sweep(command + " --resume").output.find("of another scenario") != std::string::npos);
  const CommandResult missing = sweep(scenario_file("ring4") + " --vary cabling=" + own + "," + folder + "/no.toml");
  CHECK(missing.status == 2);
  CHECK(missing.output.find("no.toml: there is no such file") != std::string::npos);
}

TEST_CASE("a sweep that was killed is resumed with the same bytes, wherever the kill came") {
  const std::string folder = scratch_folder("sweep_resume"), whole = folder + "/whole", cut = folder + "/cut";
  const std::string arguments =
      scenario_file("pair") + " --vary workload.bytes=1K,2K,4K,8K,16K,32K,64K,128K --vary seed=1,2 --workers 2";
  CHECK(sweep(arguments + " --results " + whole).status == 0);
  for (const int lines : {1, 2, 5, 16}) {
    // As a kill leaves it: whole lines, and the beginning of one more.
    std::filesystem::create_directories(cut);
    const std::string journal = read_text_file(whole + "/points.jsonl");
    std::size_t end = 0;
    for (int line = 0; line < lines; ++line) end = journal.find('\n', end) + 1;
    std::ofstream(cut + "/points.jsonl") << journal.substr(0, end + 20);
    const CommandResult resumed = sweep(arguments + " --resume --results " + cut);
    CHECK(resumed.status == 0);
    for (const char* file : {"/sweep.json", "/sweep.csv"})
      CHECK(read_text_file(cut + file) == read_text_file(whole + file));
    std::filesystem::remove_all(cut);
  }
  // A real one.
  const CommandResult killed = run_command_line("timeout -s KILL 1 " + meshbed_program() + " sweep " + arguments +
                                                " --results " + cut + " >/dev/null 2>&1");
  CHECK(sweep(arguments + " --resume --results " + cut).status == 0);
  CHECK(read_text_file(cut + "/sweep.json") == read_text_file(whole + "/sweep.json"));
  CHECK(killed.status != 2);
  const CommandResult other = sweep(scenario_file("ring4") + " --vary seed=1,2 --resume --results " + cut);
  CHECK(other.status == 2);
  CHECK(other.output.find("is of another scenario") != std::string::npos);
}

TEST_CASE("two sweeps do not write to one folder at one time") {
  const std::string folder = scratch_folder("sweep_two");
  const std::string arguments = scenario_file("pair") + " --vary seed=1,2,3,4,5,6,7,8 --results " + folder;
  const CommandResult both = run_command_line(
      "(" + meshbed_program() + " sweep " + arguments + " >" + folder + "/first 2>&1; echo $? >" + folder +
      "/status) & sleep 0.3; " + meshbed_program() + " sweep " + arguments + " 2>&1; echo status $?; wait");
  const bool is_refused = both.output.find("is being written by another sweep") != std::string::npos;
  // The first one may have ended before the second began.
  CHECK((is_refused || both.output.find("8 points, 8 ok") != std::string::npos));
  CHECK(read_text_file(folder + "/status") == "0\n");
  CHECK(points_of(folder).size() == 8);
}

TEST_CASE("ranks of an MPI job share a sweep; one prints the table, with the bytes of a sweep by one process") {
  const std::string folder = scratch_folder("sweep_ranks"), whole = folder + "/whole", parts = folder + "/parts";
  const std::string arguments = scenario_file("pair") + " --vary workload.bytes=1K,2K,4K,8K,16K --fail each-cable";
  CHECK(sweep(arguments + " --results " + whole).status == 0);
  const auto rank = [&](int index, const std::string& job, const std::string& options) {
    return "OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_RANK=" + std::to_string(index) + " PMIX_NAMESPACE=" + job + " " +
           meshbed_program() + " sweep " + arguments + " --results " + parts + options + " >" + folder + "/rank" +
           std::to_string(index) + " 2>&1";
  };
  const auto tables = [&] {
    int count = 0;
    for (int index = 0; index < 3; ++index) {
      const std::string text = read_text_file(folder + "/rank" + std::to_string(index));
      if (text.find("10 points, ") != std::string::npos) ++count;
      CHECK((text.find("10 points, ") != std::string::npos || text.find(" of 3 is done") != std::string::npos));
    }
    return count;
  };
  const auto check_bytes = [&] {
    for (const char* file : {"/sweep.json", "/sweep.csv"}) {
      CHECK(read_text_file(parts + file) == read_text_file(whole + file));
    }
  };
  // All at one time, twice in one folder: what the first job left does not count in the second.
  for (const char* job : {"first", "second"}) {
    CHECK(run_command_line("(" + rank(0, job, "") + ") & (" + rank(1, job, "") + ") & " + rank(2, job, "") + "; wait")
              .status == 0);
    CHECK(tables() == 1);
    check_bytes();
    std::filesystem::remove(parts + "/sweep.json");
  }
  // One after the other, where the second one was killed; then resumed.
  CHECK(run_command_line(rank(0, "third", "")).status == 0);
  CHECK(run_command_line(rank(2, "third", "")).status == 0);
  CHECK(!std::filesystem::exists(parts + "/sweep.json"));
  CHECK(run_command_line("(" + rank(0, "fourth", " --resume") + ") & (" + rank(1, "fourth", " --resume") + ") & " +
                         rank(2, "fourth", " --resume") + "; wait")
            .status == 0);
  CHECK(tables() == 1);
  check_bytes();
}

TEST_CASE("--slurm prints a batch script; its tasks make the same table") {
  const std::string folder = scratch_folder("sweep_slurm"), whole = folder + "/whole", parts = folder + "/parts";
  const std::string arguments = scenario_file("pair") + " --vary workload.bytes=1K,2K,4K";
  CHECK(sweep(arguments + " --results " + whole).status == 0);
  const CommandResult script = sweep(arguments + " --slurm 2 --results " + parts);
  REQUIRE(script.status == 0);
  CHECK(script.output.find("#SBATCH --array=0-1\n") != std::string::npos);
  CHECK(script.output.find("--slurm ") == std::string::npos);
  std::ofstream(folder + "/script") << script.output;
  for (const char* task : {"0", "1"}) {
    const CommandResult done = run_command_line(std::string("SLURM_ARRAY_JOB_ID=5 SLURM_ARRAY_TASK_COUNT=2 "
                                                            "SLURM_ARRAY_TASK_MIN=0 SLURM_ARRAY_TASK_ID=") +
                                                task + " sh " + folder + "/script 2>&1");
    CHECK_MESSAGE(done.status == 0, done.output);
    CHECK((done.output.find("3 points, 3 ok") != std::string::npos) == (*task == '1'));
  }
  CHECK(read_text_file(parts + "/sweep.json") == read_text_file(whole + "/sweep.json"));
  CHECK(sweep(arguments + " --slurm-task --results " + parts).status == 2);
}

TEST_CASE("under mpirun") {
  if (run_command_line("command -v mpirun").status != 0) {
    MESSAGE("skipped: there is no mpirun (Debian: openmpi-bin)");
    return;
  }
  const std::string folder = scratch_folder("sweep_mpirun"), whole = folder + "/whole", parts = folder + "/parts";
  const std::string arguments = "sweep " + scenario_file("pair") + " --vary workload.bytes=1K,2K,4K,8K --results ";
  CHECK(run_command_line(meshbed_program() + " " + arguments + whole).status == 0);
  const CommandResult both = run_command_line("mpirun --allow-run-as-root --oversubscribe -n 2 " + meshbed_program() +
                                              " " + arguments + parts + " 2>&1");
  CHECK_MESSAGE(both.status == 0, both.output);
  CHECK(both.output.find("4 points, 4 ok") != std::string::npos);
  CHECK(read_text_file(parts + "/sweep.json") == read_text_file(whole + "/sweep.json"));
}

TEST_CASE("under Slurm") {
  const std::string folder = scratch_folder("sweep_real_slurm"), whole = folder + "/whole", parts = folder + "/parts";
  const std::string script = "sh '" MESHBED_SOURCE_DIR "/tests/support/one_node_slurm.sh' ";
  const CommandResult started = run_command_line(script + "start " + folder + "/slurm 2>&1");
  if (started.status != 0) {
    MESSAGE("skipped: " << started.output);
    return;
  }
  const std::string arguments = scenario_file("pair") + " --vary workload.bytes=1K,2K,4K,8K --results ";
  CHECK(sweep(arguments + whole).status == 0);
  const CommandResult both =
      run_command_line(meshbed_program() + " sweep " + arguments + parts + " --slurm 2 | SLURM_CONF=" + folder +
                       "/slurm/slurm.conf sbatch --wait -o '" + folder + "/task-%a' 2>&1; cat " + folder + "/task-*");
  CHECK(run_command_line(script + "stop " + folder + "/slurm 2>&1").status == 0);
  CHECK(both.output.find("4 points, 4 ok") != std::string::npos);
  CHECK(both.output.find("the last one to end prints the table") != std::string::npos);
  CHECK(read_text_file(parts + "/sweep.json") == read_text_file(whole + "/sweep.json"));
}

TEST_CASE("bad input is refused with place, cause and fix, before anything runs") {
  const std::string pair = scenario_file("pair") + " --results " + scratch_folder("sweep_bad") + " ";
  const auto refused = [&](const std::string& arguments, const std::string& words) {
    const CommandResult result = sweep(pair + arguments);
    CAPTURE(result.output);
    CHECK(result.status == 2);
    CHECK(result.output.find(words) != std::string::npos);
    CHECK(result.output.find('\n') == result.output.size() - 1);
  };
  refused("--vary workload.bites=1K,2K", "did you mean");
  refused("--vary workload.bytes=1K,2K --vary workload.bytes=4K", "varied twice");
  refused("", "nothing is varied");
  refused("--vary workload.bytes=lots", "--vary workload.bytes");
  refused("--fail each-cat", "expects each-cable, each-nic, each-node or pairs");
  refused("--fail-at 2ms --vary seed=1,2", "has no effect without --fail");
  refused("--fail each-cable --fail-at soon", "--fail-at");
  refused("--vary seed=1,2 --baseline seed=3", "is not a KEY=VALUE of --vary");
  refused("--vary seed=1,2,3 --max-points 2", "3 points are more than --max-points 2");
  refused("--vary seed=1 --fail pairs --max-points 0", "expects a whole number");
  refused("--points /nowhere.csv", "/nowhere.csv");
}

TEST_CASE("Ctrl-C exits 130 and says what is kept") {
  const std::string folder = scratch_folder("sweep_interrupted");
  const CommandResult result = run_command_line(
      "timeout -s INT --preserve-status 0.7 " + meshbed_program() + " sweep " + scenario_file("ring4") +
      " --vary seed=1,2,3,4,5,6,7,8,9,10,11,12 --workers 1 --results " + folder + " 2>&1 >/dev/null");
  CHECK(result.status == 130);
  CHECK(result.output.find("--resume goes on from there") != std::string::npos);
  CHECK(read_text_file(folder + "/points.jsonl").find("scenario_sha256") != std::string::npos);
}

}  // namespace sweep_command_test
