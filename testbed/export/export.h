#pragma once
// Export: a scenario's cluster as files of other tools. Pure functions; any thread. `meshbed init` reads netplan, ip,
// NCCL's XML and InfraGraph back (testbed/import).

#include <string>
#include <vector>

#include "testbed/scenario/scenario.h"

namespace meshbed::testbed {

struct ExportedFile {
  std::string path;  // within the folder; of a format of one file empty
  std::string text;
};

struct ExportFormat {
  const char* name;  // as --to has it
  const char* meaning;
  bool is_folder;  // a file or folder for each node; else one file
  std::vector<ExportedFile> (*write)(const Scenario& scenario);
};
/// netplan, ip, nccl-xml, simgrid, graphviz, infragraph.
const std::vector<ExportFormat>& export_formats();

std::vector<ExportedFile> netplan_files(const Scenario& scenario);
std::vector<ExportedFile> ip_scripts(const Scenario& scenario);
std::vector<ExportedFile> nccl_topologies(const Scenario& scenario);
std::vector<ExportedFile> simgrid_platform(const Scenario& scenario);
std::vector<ExportedFile> graphviz_graph(const Scenario& scenario);
std::vector<ExportedFile> infragraph_file(const Scenario& scenario);

}  // namespace meshbed::testbed
