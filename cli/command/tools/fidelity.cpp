// meshbed fidelity: the errors of the models over all measured files, as a page and plots.

#include "testbed/fidelity/fidelity.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <ostream>

#include "cli/command/commands.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/files.h"
#include "testbed/fidelity/left_out.h"
#include "testbed/fidelity/peers.h"
#include "testbed/fidelity/profiles.h"

namespace meshbed::testbed {

int fidelity_command(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  namespace po = boost::program_options;
  std::vector<std::string> paths;
  std::string folder, intervals;
  Syntax syntax("fidelity [FILE...] [options]");
  syntax.operands.add_options()  //
      ("file", po::value(&paths)->value_name("FILE"), "measured times; default: all of models/data");
  syntax.positions.add("file", -1);
  syntax.options.add_options()  //
      ("out", po::value(&folder)->value_name("FOLDER"),
       "write README.md and a plot of each file there; default: the page without plots, to standard output")  //
      ("intervals", po::value(&intervals)->value_name("FILE"),
       "instead of a page: leave each file out in turn and write how far predictions were off, as "
       "models/intervals/intervals.toml");
  syntax.only_without({"out"}, {"intervals"});
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;
  std::vector<MeasuredFile> files;
  if (paths.empty()) files = read_measured_folder();
  for (const std::string& path : paths) files.push_back(read_measured_file(path, {}));
  const std::vector<models::Machine> profiles = shipped_machines();
  if (!intervals.empty()) {
    write_text_file(intervals, make_interval_table(leave_sources_out(files, profiles)).text());
    return kExitOk;
  }
  std::optional<std::vector<models::Peer>> peers;
  const auto peer_source = [&]() -> const std::vector<models::Peer>& {
    if (!peers) peers = peers_among(read_measured_folder(), profiles);
    return *peers;
  };
  std::vector<Validated> all;
  for (MeasuredFile& file : files) {
    for (const BadRow& row : file.bad) {
      err << fmt::format("meshbed: {}:{}: {}; row left out\n", file.path, row.line, row.reason);
    }
    all.push_back(validate_file(std::move(file), profiles, peer_source, err));
  }
  const std::string page = fidelity_page(all, profiles, folder.empty() ? "" : "plots");
  if (folder.empty()) {
    out << page;
    return kExitOk;
  }
  const std::filesystem::path place = folder;
  for (const Validated& each : all) {
    const std::filesystem::path name = std::filesystem::path(each.file.name).replace_extension(".svg");
    write_text_file((place / "plots" / name).string(), svg_of(plot_of(each)));
  }
  write_text_file((place / "README.md").string(), page);
  return kExitOk;
}

}  // namespace meshbed::testbed
