#include "models/time/machine_profile.h"

#include <doctest/doctest.h>

#include <string>

namespace machine_profile_test {

using namespace meshbed::models;

namespace {

const std::string kHead = "name = \"x\"\ndescription = \"y\"\n";
const std::string kTopology = "[topology]\ncabling = \"switch\"\nranks_per_node = 1\n";

meshbed::Result<Machine> parse_machine(const std::string& text, const std::string& place) {
  const auto profile = Profile::parse(text, place);
  if (!profile) return profile.error();
  return machine_of(*profile);
}

std::string error_of(const std::string& text) {
  const auto machine = parse_machine(text, "x.toml");
  return machine ? "" : machine.error().text;
}

std::string with(const std::string& line) { return kHead + line + "\n" + kTopology; }

}  // namespace

TEST_CASE("a machine's value without basis, without source, of no name or out of what is plausible is refused") {
  CHECK(error_of(with("nics = { value = 2, unit = \"1\", basis = \"measured\", source = \"here\" }")).empty());
  for (const char* line : {"nics = 2", "nics = { value = 2, unit = \"1\", source = \"here\" }",
                           "nics = { value = 2, unit = \"1\", basis = \"measured\" }",
                           "nics = { value = 2, unit = \"1\", basis = \"measured\", source = \"\" }",
                           "nics = { value = 2, unit = \"1\", basis = \"hearsay\", source = \"here\" }",
                           "nics = { value = 2, unit = \"1\", basis = \"guess\", source = \"no range\" }",
                           "nics = { value = 2000, unit = \"1\", basis = \"measured\", source = \"here\" }",
                           "launch_us = { value = 2, unit = \"ns\", basis = \"measured\", source = \"here\" }",
                           "launch_us = { value = 2, basis = \"calibrated\", source = \"fitted_on\" }",
                           "nocs = { value = 2, unit = \"1\", basis = \"measured\", source = \"here\" }"}) {
    const std::string error = error_of(with(line));
    CHECK_MESSAGE(error.rfind("x.toml:3: ", 0) == 0, line, ": ", error);
  }
}

TEST_CASE("a machine's topology is read, and what there is not is refused with its place") {
  CHECK(error_of(kHead) == "x: there is no [topology] with cabling and ranks_per_node");
  CHECK(error_of(kHead + "[topology]\ncabling = \"tube\"\nranks_per_node = 1\n") ==
        "x.toml:3: cabling has to be switch, ring or mesh");
  CHECK(error_of(kHead + kTopology + "transport = \"pigeon\"\n").rfind("x.toml:3: transport has to be none", 0) == 0);
  CHECK(error_of(kHead + "[topology]\ncabling = \"mesh\"\nranks_per_node = 0\n") ==
        "x.toml:3: ranks_per_node has to be 1 to 1024");
  const auto machine =
      parse_machine(kHead + kTopology + "transport = \"efa\"\n[match]\nvariant = [\"nccl\"]\n", "x.toml");
  REQUIRE(machine);
  CHECK(machine->transport == MachineTransport::kEfa);
  CHECK(machine->variants == std::vector<std::string>{"nccl"});
}

TEST_CASE("a machine is written as a profile of which the same machine is read") {
  Machine machine;
  machine.name = "made";
  machine.description = "with \"quotes\"";
  machine.fitted_on = {"a.csv", "b.csv"};
  machine.classes = {"1gpu/node"};
  machine.cabling = Cabling::kRing;
  machine.ranks_per_node = 4;
  machine.transport = MachineTransport::kStaged;
  machine.set(MachineParameter::kLaunchUs, {6.25, Basis::kCalibrated, "a.csv, b.csv"});
  machine.set(MachineParameter::kNics, {2, Basis::kGuess, "not stated", std::pair{1.0, 2.0}});
  machine.set(MachineParameter::kNicFraction, {0.1234, Basis::kPooled, "one value for all of c"});
  const std::string text = profile_text(machine, {{"a.csv", "median 1 %"}});
  const auto again = parse_machine(text, "made.toml");
  REQUIRE_MESSAGE(again, again.error().text);
  CHECK(profile_text(*again, {{"a.csv", "median 1 %"}}) == text);
  CHECK(again->value_of(MachineParameter::kLaunchUs).source == "a.csv, b.csv");
  CHECK(again->value_of(MachineParameter::kNics).range == std::pair{1.0, 2.0});
  CHECK((*again)[MachineParameter::kNicFraction] == 0.1234);
}

}  // namespace machine_profile_test
