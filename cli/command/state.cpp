#include <fmt/format.h>
#include <fmt/ostream.h>

#include <nlohmann/json.hpp>
#include <ostream>
#include <stdexcept>

#include "cli/command/commands.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/json_text.h"
#include "testbed/result/state_client.h"
#include "testbed/result/state_report.h"
#include "testbed/workload/result.h"

namespace meshbed::testbed {
namespace {

namespace po = boost::program_options;

[[noreturn]] void tell_that_there_is_none(const StateSockets& sockets) {
  std::string text =
      "state: no running process with a mesh plugin was found in /tmp/meshbed-*/ (where NCCL_MESH_STATE_SOCKET names "
      "another folder, name it here)";
  for (const std::string& folder : sockets.refused) text += "; " + folder;
  throw std::runtime_error(text);
}

}  // namespace

int state_command(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  bool json = false;
  StateTableOptions table;
  std::vector<std::string> words;
  Syntax syntax("state [PID | SOCKET | FOLDER ...] [--all | --json]");
  syntax.options.add_options()                                                             //
      ("all", po::bool_switch(&table.all), "also list connections that wait for nothing")  //
      ("json", po::bool_switch(&json), "print all that each process reports, one JSON object a line");
  syntax.operands.add_options()("process", po::value(&words)->value_name("PID"),
                                "process, socket or folder of sockets; default: all in /tmp/meshbed-*/");
  syntax.positions.add("process", -1);
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;

  const StateSockets sockets = words.empty() ? find_state_sockets() : named_state_sockets(words);
  int answers = 0, problems = 0;
  for (const std::string& path : sockets.paths) {
    StateAnswer answer = ask_for_state(path);
    try {
      if (answer.problem.empty()) {
        const nlohmann::ordered_json state = parse_state(answer.text);
        if (answers++ > 0 && !json) out << "\n";
        out << (json ? json_text(state) + "\n" : state_table(state, table));
      }
    } catch (const std::runtime_error& error) {
      answer.problem = error.what();
    }
    if (answer.problem.empty()) continue;
    // The socket of a killed process is reported only if the user named it.
    if (answer.stale && words.empty()) continue;
    fmt::print(err, "{}: {}\n", path, answer.problem);
    ++problems;
  }
  for (const std::string& folder : sockets.refused) fmt::print(err, "{}\n", folder);
  if (answers == 0 && problems == 0) tell_that_there_is_none(sockets);
  return problems == 0 ? kExitOk : kExitBroken;
}

}  // namespace meshbed::testbed
