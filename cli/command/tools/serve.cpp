#include <fmt/format.h>

#include <memory>
#include <ostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "cli/command/commands.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/interruption.h"
#include "testbed/serve/server.h"

namespace meshbed::testbed {

namespace po = boost::program_options;

int serve_command(const Arguments& arguments, std::ostream& out, std::ostream&) {
  std::vector<std::string> words;
  std::string listen = "127.0.0.1:9091";
  bool live = false;
  Syntax syntax("serve RESULTS [--listen ADDRESS:PORT] | serve --live [PROCESS...]");
  syntax.operands.add_options()  //
      ("results", po::value(&words)->value_name("RESULTS"),
       "a folder of results (results/SCENARIO/WORLD), best with the records of run --zernel-out in its folder zernel; "
       "with --live: process numbers, sockets or folders of sockets, default: all");
  syntax.positions.add("results", -1);
  syntax.options.add_options()  //
      ("listen", po::value(&listen)->value_name("ADDRESS:PORT")->default_value(listen),
       "where HTTP clients connect; WebSocket clients: the next port. Port 0: two free ones. Without any password: an "
       "address that others reach shows them everything")  //
      ("live", po::bool_switch(&live), "the state of running processes with a Mesh plugin, instead of results");
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;

  if (!live && words.size() != 1) {
    throw std::runtime_error(words.empty()
                                 ? "serve: RESULTS is missing: name a folder of results, or give --live"
                                 : "serve: one folder of results at a time; give results/SCENARIO for all its "
                                   "worlds");
  }
  std::unique_ptr<serve::Content> content;
  if (live) {
    content = std::make_unique<serve::LiveContent>(words);
  } else {
    content = std::make_unique<serve::ResultsContent>(words.front());
  }
  serve::Server server(serve::parse_address(listen), *content);
  const Interruption interruption("", "the server has ended; it writes nothing");
  out << fmt::format("{}: {} (metrics, json, health), {}; Ctrl-C ends it\n", content->description(), server.http_url(),
                     server.websocket_url())
      << std::flush;
  server.run();
  return kExitOk;
}

}  // namespace meshbed::testbed
