#include <nlohmann/json.hpp>
#include <ostream>

#include "cli/command/commands.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/json_text.h"
#include "testbed/result/zernel/metrics.h"
#include "testbed/workload/result.h"

namespace meshbed::testbed {

namespace po = boost::program_options;

int zernel_command(const Arguments& arguments, std::ostream& out, std::ostream& /*err*/) {
  std::vector<std::string> paths;
  std::string stream_name;
  bool json = false;
  Syntax syntax("zernel FOLDER | FILE ... [options]");
  syntax.options.add_options()  //
      ("stream", po::value(&stream_name)->value_name("STREAM"),
       "what FILE holds, where its name does not say so: nccl, gpu_mem, cuda, dataload, dist_sync")  //
      ("json", po::bool_switch(&json), "what zernel pushes to its WebSocket clients, instead of its /metrics");
  syntax.operands.add_options()("path", po::value(&paths)->required()->value_name("PATH"),
                                "what run --zernel-out wrote: a folder of streams, or one stream's file");
  syntax.positions.add("path", -1);
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;

  if (!stream_name.empty()) require_choice("--stream", "stream", stream_name, zernel::stream_names());
  zernel::Streams streams;
  for (const std::string& path : paths) zernel::read_streams(streams, path, zernel::parse_stream(stream_name));
  const zernel::Metrics metrics(streams);
  out << (json ? json_text(metrics.snapshot(), kIndent) + "\n" : metrics.prometheus());
  return kExitOk;
}

}  // namespace meshbed::testbed
