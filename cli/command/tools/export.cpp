#include "testbed/export/export.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <stdexcept>

#include "cli/command/commands.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/files.h"
#include "testbed/scenario/scenario.h"

namespace meshbed::testbed {

int export_command(const Arguments& arguments, std::ostream& out, std::ostream&) {
  namespace po = boost::program_options;
  std::string input, to, output;
  std::vector<std::string> overrides, names;
  std::string formats;
  for (const ExportFormat& format : export_formats()) {
    names.emplace_back(format.name);
    formats += fmt::format("{}{}: {}", formats.empty() ? "" : "; ", format.name, format.meaning);
  }
  Syntax syntax("export SCENARIO --to FORMAT [-o FILE|DIR]");
  syntax.operands.add_options()("input", po::value(&input)->value_name("SCENARIO"), "scenario file");
  syntax.positions.add("input", 1);
  syntax.options.add_options()                                                   //
      ("to", po::value(&to)->required()->value_name("FORMAT"), formats.c_str())  //
      ("output,o", po::value(&output)->value_name("FILE|DIR"),
       "a folder for netplan, ip and nccl-xml; a file for the others, which go to standard output without it")  //
      ("set", po::value(&overrides)->value_name("KEY=VALUE"), "override a key of the scenario; may be repeated");
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;
  if (input.empty()) throw std::runtime_error("export: name a scenario file");
  require_choice("--to", "format", to, names);
  const auto format = std::find_if(export_formats().begin(), export_formats().end(),
                                   [&](const ExportFormat& each) { return each.name == to; });
  if (format->is_folder && output.empty()) {
    throw std::runtime_error(fmt::format("export --to {}: writes {}; give a folder with -o DIR", to, format->meaning));
  }
  const std::vector<ExportedFile> files = format->write(read_scenario(input, overrides));
  for (const ExportedFile& file : files) {
    if (output.empty() || output == "-") {
      out << file.text;
      continue;
    }
    const std::string path = file.path.empty() ? output : output + "/" + file.path;
    write_text_file(path, file.text);
    out << path << "\n";
  }
  return kExitOk;
}

}  // namespace meshbed::testbed
