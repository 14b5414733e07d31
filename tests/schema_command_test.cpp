// docs/schema: the JSON Schema of summary.json is that of the program, and what runs write fits it. Other software
// (valijson) does the validation.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

#include "testbed/base/files.h"
#include "tests/support/command.h"

namespace schema_command_test {

using namespace meshbed::test;
using nlohmann::json;

namespace {

std::string kept_schema() {
  return meshbed::testbed::read_text_file(std::string(MESHBED_SOURCE_DIR) + "/docs/schema/summary.json");
}

/// Empty if it fits.
std::string problem_of(const json& summary) {
  static const json text = json::parse(kept_schema());
  valijson::Schema schema;
  valijson::SchemaParser().populateSchema(valijson::adapters::NlohmannJsonAdapter(text), schema);
  valijson::ValidationResults results;
  if (valijson::Validator().validate(schema, valijson::adapters::NlohmannJsonAdapter(summary), &results)) return "";
  valijson::ValidationResults::Error error;
  std::string problems = "does not fit";
  while (results.popError(error)) {
    for (const std::string& part : error.context) problems += part;
    problems += ": " + error.description + "; ";
  }
  return problems;
}

json summary_of(const std::string& scenario, const std::string& options = "") {
  return json::parse(run_command_line(meshbed_program() + " run --json --no-trace " + scenario_file(scenario) + " " +
                                      options + " --results " + scratch_folder("schema_" + scenario) + " 2>/dev/null")
                         .output);
}

}  // namespace

TEST_CASE("docs/schema/summary.json is the program's (meshbed lint --schema > docs/schema/summary.json)") {
  CHECK(run_command_line(meshbed_program() + " lint --schema").output == kept_schema());
}

TEST_CASE("what runs write fits the schema: each kind of workload, faults, failures, profiles, bonds") {
  for (const char* scenario :
       {"pair", "pair-cable-pulled", "ring4-refused", "megakernel-ring8", "megakernel-decode", "megakernel-wait-cycle",
        "nccl-calls-pair-all-reduce", "spark-triangle", "bond-lag", "slowloris", "crossed-cable", "leak-39k"}) {
    CAPTURE(scenario);
    CHECK(problem_of(summary_of(scenario)) == "");
  }
  CHECK(problem_of(summary_of("engine-matrix", "--set workload.cases=20")) == "");
}

TEST_CASE("a summary with a key too many, one too few, or a value of another type does not fit") {
  const json summary = summary_of("pair");
  json changed = summary;
  changed["colour"] = "blue";
  CHECK(problem_of(changed).find("colour") != std::string::npos);
  changed = summary;
  changed.erase("digest");
  CHECK(problem_of(changed).find("digest") != std::string::npos);
  changed = summary;
  changed["pairs"][0]["messages"] = "many";
  CHECK(problem_of(changed) != "");
}

}  // namespace schema_command_test
