#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>

#include "cli/command/commands.h"
#include "cli/command/env.h"
#include "emu/microvm/probe.h"
#include "emu/namespace/namespace_host.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/files.h"
#include "testbed/base/json_text.h"
#include "testbed/workload/result.h"
#include "testbed/world/metal_devices.h"
#include "testbed/world/world.h"

namespace meshbed::testbed {
namespace {

namespace fs = std::filesystem;
namespace po = boost::program_options;

struct Prerequisite {
  std::string what;
  bool present = false;
  std::string detail;
};

struct WorldReport {
  std::string world;
  bool can_run = false;
  std::string verdict;
  std::vector<Prerequisite> findings;
};

Prerequisite find_file(const std::string& what, const std::string& path) {
  std::error_code problem;
  return {what, fs::exists(path, problem), path};
}

/// Can it be loaded, as the program that needs it would load it?
Prerequisite find_library(const std::string& what, const std::string& name) {
  void* handle = dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) return {what, false, dlerror()};
  dlclose(handle);
  return {what, true, name};
}

Prerequisite find_devices() {
  const std::vector<std::string> names = machine_devices();
  return {"RDMA devices", !names.empty(),
          names.empty() ? fmt::format("none in {}", kDevicesFolder) : fmt::format("{}", fmt::join(names, ", "))};
}

bool all_present(const std::vector<Prerequisite>& findings) {
  return std::all_of(findings.begin(), findings.end(), [](const Prerequisite& finding) { return finding.present; });
}

WorldReport look_at_sim() {
  const BuiltFiles files = built_files();
  WorldReport report{.world = name_of(WorldKind::kSimulated), .can_run = false, .verdict = "", .findings = {}};
  report.findings = {find_file("net plugin", files.net_plugin), find_file("engine", files.engine),
                     find_file("drop-in verbs", files.libibverbs)};
  report.can_run = all_present(report.findings);
  report.verdict = report.can_run ? "can run" : "cannot run: build it with ./meshbed";
  return report;
}

WorldReport look_at_emu() {
  WorldReport report{.world = name_of(WorldKind::kEmulated), .can_run = false, .verdict = "", .findings = {}};
  for (const emu::Part& part : emu::look_at_parts()) report.findings.push_back({part.what, part.present, part.detail});
  report.can_run = all_present(report.findings);
  report.verdict = report.can_run ? "can run, in virtual machines: " + emu::probe_accelerator().reason
                                  : "cannot run: ./meshbed run --world emu SCENARIO installs what is missing";
  return report;
}

/// The emulated world's other backend, which the host may well do without.
WorldReport look_at_namespaces() {
  WorldReport report{.world = "emu/namespaces", .can_run = false, .verdict = "", .findings = {}};
  for (const emu::Part& part : emu::look_at_namespace_parts()) {
    report.findings.push_back({part.what, part.present, part.detail});
  }
  report.can_run = all_present(report.findings);
  report.verdict = report.can_run ? "can run: --backend namespaces; it changes the host's routing rules while it runs"
                                  : "cannot run; virtual machines (--backend microvm) need none of this";
  return report;
}

WorldReport look_at_metal() {
  WorldReport report{.world = name_of(WorldKind::kMetal), .can_run = false, .verdict = "", .findings = {}};
  report.findings = {find_devices(), find_library("rdma-core", "libibverbs.so.1")};
  if (const std::string problem = hca_problem_of_shell(); !problem.empty()) {
    report.findings.push_back({"a device that NCCL_IB_HCA lets in", false, problem});
  }
  report.can_run = all_present(report.findings);
  report.verdict = report.can_run ? "can run: one process a rank, over these devices; nothing here is changed"
                                  : "cannot run: it needs a NIC with RDMA";
  return report;
}

}  // namespace

int doctor_command(const Arguments& arguments, std::ostream& out, std::ostream&) {
  bool json = false;
  Syntax syntax("doctor [--json]");
  syntax.options.add_options()("json", po::bool_switch(&json), "print JSON");
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;

  const std::vector<WorldReport> reports{look_at_sim(), look_at_emu(), look_at_namespaces(), look_at_metal()};
  nlohmann::ordered_json object;
  for (const WorldReport& report : reports) {
    if (!json) fmt::print(out, "{:<6} {}\n", report.world, report.verdict);
    auto findings = nlohmann::ordered_json::array();
    for (const Prerequisite& finding : report.findings) {
      if (!json)
        fmt::print(out, "  {:<8} {}: {}\n", finding.present ? "found" : "missing", finding.what, finding.detail);
      findings.push_back({{"what", finding.what}, {"present", finding.present}, {"detail", finding.detail}});
    }
    object[report.world] = {{"can_run", report.can_run}, {"verdict", report.verdict}, {"findings", findings}};
  }
  if (json) out << json_text(object, kIndent) << "\n";
  return reports.front().can_run ? kExitOk : kExitBroken;
}

}  // namespace meshbed::testbed
