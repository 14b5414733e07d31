// What the ecosystem's launchers say of a rank, and what is wrong with it.
#include "plugin/coll/api/launcher.h"

#include <cstdlib>
#include <map>

#include "tests/coll/rank_threads.h"

namespace launcher_test {

using namespace meshbed;
using namespace meshbed::test;

namespace {

using Variables = std::map<std::string, std::string>;

Result<coll::Launch> read(const Variables& variables) {
  return coll::read_launcher([&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found != variables.end() ? std::optional(found->second) : std::nullopt;
  });
}

void says(const Variables& variables, int rank, int world, const std::string& bootstrap) {
  const auto launch = read(variables);
  REQUIRE_MESSAGE(launch.has_value(), launch.error().text);
  CHECK(launch->rank == rank);
  CHECK(launch->world == world);
  CHECK(launch->bootstrap == bootstrap);
}

void refuses(const Variables& variables, const std::string& words) {
  const auto launch = read(variables);
  REQUIRE(!launch.has_value());
  CHECK_MESSAGE(contains(launch.error().text, words), launch.error().text);
}

Variables operator+(Variables left, const Variables& right) {
  for (const auto& [name, value] : right) left[name] = value;
  return left;
}

const Variables kTorchrun{{"RANK", "3"},
                          {"WORLD_SIZE", "8"},
                          {"MASTER_ADDR", "10.0.0.1"},
                          {"MASTER_PORT", "29400"},
                          {"TORCHELASTIC_RUN_ID", "none"}};
const Variables kMpirun{{"OMPI_COMM_WORLD_RANK", "1"},
                        {"OMPI_COMM_WORLD_SIZE", "4"},
                        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                        {"MASTER_ADDR", "10.0.0.1"}};
const Variables kSrun{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_STEP_NODELIST", "10.0.0.7,10.0.0.8"}};

}  // namespace

TEST_CASE("torchrun: its four variables; the next port where its agent keeps that one") {
  says(kTorchrun, 3, 8, "10.0.0.1:29400");
  says(kTorchrun + Variables{{"TORCHELASTIC_USE_AGENT_STORE", "True"}}, 3, 8, "10.0.0.1:29401");
  says(kTorchrun + Variables{{"MASTER_ADDR", "fd00::1"}}, 3, 8, "[fd00::1]:29400");
  const std::string key = "00112233445566778899aabbccddeeff";
  says(kTorchrun + Variables{{"MESHBED_JOB_KEY", key}}, 3, 8, "10.0.0.1:29400/" + key);
  refuses(kTorchrun + Variables{{"MESHBED_JOB_KEY", "0011"}}, "MESHBED_JOB_KEY is not 32 hexadecimal digits");
  // A node's torchrun under srun or mpirun: their ranks are of nodes.
  says(kTorchrun + Variables{{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"OMPI_COMM_WORLD_RANK", "1"}}, 3, 8,
       "10.0.0.1:29400");
  says({{"RANK", "0"}, {"WORLD_SIZE", "1"}}, 0, 1, "");
}

TEST_CASE("mpirun: its own rank and size; rank 0's address where all are on one machine, or as exported") {
  says(kMpirun, 1, 4, "10.0.0.1:29500");
  Variables local = kMpirun + Variables{{"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}};
  local.erase("MASTER_ADDR");
  says(local, 1, 4, "127.0.0.1:29500");
  local["OMPI_COMM_WORLD_LOCAL_SIZE"] = "2";
  refuses(local, "MASTER_ADDR is not set, and mpirun does not say where rank 0 is: mpirun -x MASTER_ADDR=ADDRESS");
}

TEST_CASE("srun: its process number and tasks; rank 0 on the step's first node") {
  says(kSrun, 0, 2, "10.0.0.7:29500");
  says(kSrun + Variables{{"SLURM_STEP_NODELIST", "10.0.0.[12-14,20],other"}}, 0, 2, "10.0.0.12:29500");
  says(kSrun + Variables{{"MASTER_ADDR", "10.0.0.9"}, {"MASTER_PORT", "1"}}, 0, 2, "10.0.0.9:1");
  says(kSrun + Variables{{"SLURM_STEP_NODELIST", "10.0.[3-4].[12-14],other"}}, 0, 2, "10.0.3.12:29500");
  refuses(kSrun + Variables{{"SLURM_STEP_NODELIST", "node["}}, "SLURM_STEP_NODELIST is \"node[\"; set MASTER_ADDR");
}

TEST_CASE("what is malformed or contradicts itself is refused by name, with its value and what to set") {
  refuses({}, "no launcher has set a rank: start with torchrun, mpirun or srun, or set RANK and WORLD_SIZE");
  refuses({{"RANK", "0"}}, "WORLD_SIZE is \"\"; set a number from 1 to");
  refuses({{"WORLD_SIZE", "2"}}, "RANK is \"\"; set a number from 0 to 1 (WORLD_SIZE is 2)");
  refuses(kTorchrun + Variables{{"RANK", "8"}}, "RANK is \"8\"; set a number from 0 to 7 (WORLD_SIZE is 8)");
  refuses(kTorchrun + Variables{{"RANK", "two"}}, "RANK is \"two\"");
  refuses(kTorchrun + Variables{{"WORLD_SIZE", "8x"}}, "WORLD_SIZE is \"8x\"");
  refuses(kTorchrun + Variables{{"MASTER_PORT", "65536"}}, "MASTER_PORT is \"65536\"; set a number from 1 to 65535");
  refuses(kTorchrun + Variables{{"MASTER_PORT", "65535"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}},
          "MASTER_PORT is \"65535\"; set a number from 1 to 65534");
  refuses(kTorchrun + Variables{{"MASTER_ADDR", "no.such.name.invalid"}}, "MASTER_ADDR: \"no.such.name.invalid\"");
  refuses({{"RANK", "0"}, {"WORLD_SIZE", "2"}}, "MASTER_ADDR is not set");
  // RANK exported for all of mpirun's ranks.
  refuses(kMpirun + Variables{{"RANK", "0"}, {"WORLD_SIZE", "4"}},
          "RANK is \"0\", but OMPI_COMM_WORLD_RANK is \"1\": unset RANK and WORLD_SIZE");
}

TEST_CASE("the C interface reads the process's own environment") {
  int rank = -1, world = -1;
  char bootstrap[MESHCOLL_ID_BYTES] = {};
  setenv("RANK", "1", 1);
  setenv("WORLD_SIZE", "2", 1);
  setenv("MASTER_ADDR", "::1", 1);
  CHECK(meshcoll_read_launcher(&rank, &world, bootstrap) == MESHCOLL_OK);
  CHECK(rank == 1);
  CHECK(world == 2);
  CHECK(std::string(bootstrap) == "[::1]:29500");
  setenv("RANK", "2", 1);
  CHECK(meshcoll_read_launcher(&rank, &world, bootstrap) == MESHCOLL_INVALID_ARGUMENT);
  CHECK(contains(error_of(nullptr), "read_launcher: RANK is \"2\""));
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR"}) unsetenv(name);
}

}  // namespace launcher_test
