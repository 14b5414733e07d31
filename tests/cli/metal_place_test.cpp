// Which rank a process is, as the launchers of this world say it.
#include "testbed/world/metal_place.h"

#include <doctest/doctest.h>

#include <map>
#include <stdexcept>
#include <utility>

namespace metal_place_test {

using namespace meshbed::testbed;

namespace {

using Variables = std::map<std::string, std::string>;

MetalPlace place_of(const Variables& variables) {
  return metal_place([&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found != variables.end() ? std::optional(found->second) : std::nullopt;
  });
}

std::string error_of(const Variables& variables) {
  try {
    place_of(variables);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

bool says(const Variables& variables, const std::string& text) {
  return error_of(variables).find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("torchrun, Open MPI, MPICH and Slurm each say rank and size in their own names; RANK goes before") {
  const Variables address{{"MASTER_ADDR", "10.0.0.1"}};
  for (const auto& [rank, ranks] : {std::pair{"RANK", "WORLD_SIZE"},
                                    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                    {"PMI_RANK", "PMI_SIZE"},
                                    {"SLURM_PROCID", "SLURM_NTASKS"}}) {
    Variables variables = address;
    variables[rank] = "2";
    variables[ranks] = "3";
    const MetalPlace place = place_of(variables);
    CHECK(place.rank == 2);
    CHECK(place.ranks == 3);
    CHECK(place.address == "10.0.0.1");
    CHECK(place.port == 29'500);
    CHECK(place.said_by == std::string(rank) + " and " + ranks);
    variables["RANK"] = "0";
    variables["WORLD_SIZE"] = "1";
    CHECK(place_of(variables).ranks == 1);
  }
}

TEST_CASE("what is missing or wrong is said with the way to set it") {
  CHECK(says({}, "does not know its rank; start one a rank with torchrun, mpirun or srun, or by hand: RANK=0"));
  CHECK(says({{"RANK", "0"}}, "RANK is set, WORLD_SIZE is not"));
  CHECK(says({{"WORLD_SIZE", "2"}}, "WORLD_SIZE is set, RANK is not"));
  CHECK(says({{"RANK", "0"}, {"WORLD_SIZE", "2"}}, "MASTER_ADDR is not set: rank 0's address"));
  CHECK(says({{"RANK", "2"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "x"}}, "RANK=\"2\": not a number from 0 to 1"));
  CHECK(says({{"RANK", "0"}, {"WORLD_SIZE", "0"}, {"MASTER_ADDR", "x"}}, "WORLD_SIZE=\"0\": not a number from 1"));
  CHECK(says({{"RANK", "x"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "x"}}, "RANK=\"x\": not a number"));
  CHECK(says({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "x"}, {"MASTER_PORT", "65534"}},
             "MASTER_PORT=\"65534\": not a number from 1 to 65533"));
  CHECK(says({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "x"}, {"MESHBED_JOB_KEY", "secret"}},
             "MESHBED_JOB_KEY is not 32 hexadecimal digits (openssl rand -hex 16)"));
  const std::string key = new_job_key();
  CHECK(key.size() == 32);
  CHECK(key != new_job_key());
  CHECK(place_of({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "x"}, {"MESHBED_JOB_KEY", key}}).job_key == key);
}

}  // namespace metal_place_test
