#include "cli/bench/perftest.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "emu/process.h"
#include "plugin/base/deadline.h"

namespace meshbed::testbed {
namespace {

constexpr std::int64_t kListenWithin_ms = 60'000;  // perftest takes seconds to start on an emulated processor

std::string first_line_of(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

std::vector<std::string> perftest_command(const PerftestPeer& peer, const PerftestCase& wanted) {
  std::vector<std::string> command{wanted.program, "-d", peer.device, "-x", std::to_string(peer.gid_index), "-F"};
  const auto option = [&](const char* name, std::uint64_t value) {
    command.insert(command.end(), {name, std::to_string(value)});
  };
  option("-p", static_cast<std::uint64_t>(peer.port));
  option("-s", wanted.size_bytes);
  option("-n", wanted.iterations);
  if (wanted.depth > 0) {
    option("-t", wanted.depth);
    option("-Q", 1);
  }
  if (peer.writes) command.push_back(peer.address);
  return command;
}

std::vector<double> perftest_figures(const std::string& output, std::uint64_t size_bytes) {
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::uint64_t size = 0, iterations = 0;
    if (!(words >> size >> iterations) || size != size_bytes) continue;
    std::vector<double> figures;
    for (double figure = 0; words >> figure;) figures.push_back(figure);
    if (!figures.empty()) return figures;
  }
  return {};
}

Result<std::vector<double>> run_perftest(const PerftestPeer& peer, const PerftestCase& wanted) {
  const Deadline deadline = Deadline::after_ms(kListenWithin_ms);
  while (true) {
    const emu::ProgramResult result = emu::run_program(perftest_command(peer, wanted));
    if (result.status == 0) {
      std::vector<double> figures = perftest_figures(result.output, wanted.size_bytes);
      if (!figures.empty() || !peer.writes) return figures;
    }
    const std::string said = result.errors + result.output;
    // The other end's program may not listen yet.
    const bool early = peer.writes && said.find("Couldn't connect to") != std::string::npos;
    if (early && !deadline.passed()) continue;
    return Error{
        .code = ErrorCode::kRemote,
        .scope = Scope::kJob,
        .text = fmt::format("{} ended with status {}: {}", wanted.program, result.status, emu::last_line(said))};
  }
}

int gid_index_of(const std::string& device, const std::string& gid) {
  const std::string port = "/sys/class/infiniband/" + device + "/ports/1/";
  for (int index = 0; std::filesystem::exists(fmt::format("{}gids/{}", port, index)); ++index) {
    // The type of an entry that is not in use cannot be read.
    if (first_line_of(fmt::format("{}gids/{}", port, index)) == gid &&
        first_line_of(fmt::format("{}gid_attrs/types/{}", port, index)) == "RoCE v2") {
      return index;
    }
  }
  return -1;
}

}  // namespace meshbed::testbed
