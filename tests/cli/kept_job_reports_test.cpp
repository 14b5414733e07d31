// The plugin's reports that emulated nodes leave in their folders.
#include <doctest/doctest.h>

#include <filesystem>
#include <iterator>

#include "testbed/base/files.h"
#include "testbed/world/kept_results.h"
#include "tests/support/command.h"

namespace kept_job_reports_test {

using namespace meshbed;
using namespace meshbed::testbed;
namespace fs = std::filesystem;

TEST_CASE("reports of all nodes go to the results folder, in place of earlier ones; nothing else does") {
  const std::string folder = test::scratch_folder("kept-job-reports");
  emu::ClusterOutcome outcome;
  for (const char* name : {"node0", "node1"}) {
    emu::NodeOutcome& node = outcome.nodes.emplace_back();
    node.name = name;
    node.folder = folder + "/" + name;
    fs::create_directories(node.folder + "/deeper");
    write_text_file(node.folder + "/mesh." + name + "-7.json", "{\"report\":\"mesh\",\"format\":1}\n");
    write_text_file(node.folder + "/other.json", "{\"report\":\"other\"}\n");
    write_text_file(node.folder + "/short", "{");
    fs::create_symlink("/etc/passwd", node.folder + "/link.json");
  }
  const std::string results = folder + "/results";
  fs::create_directory(results);
  write_text_file(results + "/mesh.node0-3.json", "{\"report\":\"mesh\",\"format\":1}\n");
  write_text_file(results + "/summary.json", "{}\n");
  keep_job_reports(results, outcome);
  CHECK(fs::exists(results + "/mesh.node0-7.json"));
  CHECK(fs::exists(results + "/mesh.node1-7.json"));
  CHECK_FALSE(fs::exists(results + "/mesh.node0-3.json"));
  CHECK(fs::exists(results + "/summary.json"));
  CHECK(std::distance(fs::directory_iterator(results), fs::directory_iterator{}) == 3);
}

}  // namespace kept_job_reports_test
