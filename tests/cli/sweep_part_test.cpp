// Which part of a sweep a process runs, by the environment that MPI and Slurm give it.
#include <doctest/doctest.h>

#include <map>
#include <optional>
#include <stdexcept>
#include <string>

#include "testbed/sweep/part.h"

namespace sweep_part_test {

using namespace meshbed::testbed;
using namespace meshbed::testbed::sweep;

namespace {

using Variables = std::map<std::string, std::string>;

Lookup environment(const Variables& variables) {
  return [variables](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional<std::string>(found->second);
  };
}

}  // namespace

TEST_CASE("ranks of Open MPI and of MPICH are parts; outside a job a process runs all") {
  const Part alone = mpi_part(environment({}));
  CHECK(alone.index == 0);
  CHECK(alone.count == 1);
  const Part open = mpi_part(
      environment({{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"PMIX_NAMESPACE", "1234@job"}}));
  CHECK(open.index == 2);
  CHECK(open.count == 4);
  CHECK(open.job == "1234@job");
  const Part other = mpi_part(environment({{"PMI_RANK", "0"}, {"PMI_SIZE", "3"}, {"SLURM_JOB_ID", "77"}}));
  CHECK(other.index == 0);
  CHECK(other.count == 3);
  CHECK(other.job == "77");
  CHECK(mpi_part(environment({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}})).job.empty());
}

TEST_CASE("tasks of a Slurm job array are parts, from the array's first number on") {
  const Variables task{{"SLURM_ARRAY_TASK_ID", "7"},
                       {"SLURM_ARRAY_TASK_MIN", "5"},
                       {"SLURM_ARRAY_TASK_COUNT", "4"},
                       {"SLURM_ARRAY_JOB_ID", "99"}};
  const Part part = slurm_part(environment(task));
  CHECK(part.index == 2);
  CHECK(part.count == 4);
  CHECK(part.job == "99");
  CHECK(mpi_part(environment(task)).count == 1);  // an array of something else
}

TEST_CASE("variables that make no sense are errors that name them") {
  const auto refuses = [](const Variables& variables, const char* words) {
    CHECK_THROWS_WITH_AS(mpi_part(environment(variables)), doctest::Contains(words), std::runtime_error);
  };
  refuses({{"OMPI_COMM_WORLD_RANK", "x"}, {"OMPI_COMM_WORLD_SIZE", "4"}}, "OMPI_COMM_WORLD_RANK=x is not a number");
  refuses({{"OMPI_COMM_WORLD_RANK", "4"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"PMIX_NAMESPACE", "a"}}, "out of range");
  refuses({{"OMPI_COMM_WORLD_RANK", "-1"}, {"OMPI_COMM_WORLD_SIZE", "4"}}, "is not a number");
  refuses({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}, "PMI_JOBID");
  CHECK_THROWS_WITH_AS(slurm_part(environment({})), doctest::Contains("not a task of a Slurm job array"),
                       std::runtime_error);
}

TEST_CASE("a batch script runs the command in its folder, as an array") {
  const std::string script = slurm_script("meshbed sweep pair.toml", "a folder", 8);
  CHECK(script.rfind("#!/bin/sh\n", 0) == 0);
  CHECK(script.find("#SBATCH --array=0-7\n") != std::string::npos);
  CHECK(script.find("cd 'a folder' || exit 2\nexec meshbed sweep pair.toml --slurm-task\n") != std::string::npos);
}

}  // namespace sweep_part_test
