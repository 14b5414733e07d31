// Both jobs are this program, started by the same mpirun with the same arguments; they differ only in their use of a
// machine whose processors the ranks may outnumber. They alternate, so that other load affects both, and each turn
// begins with an iteration that is not timed. An iteration's time is from the first rank's begin to the last one's end.
#include "cli/bench/bench_local.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <ostream>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <vector>

#include "cli/bench/bench_local_rank.h"
#include "cli/bench/bench_measure.h"
#include "cli/bench/perf_format.h"
#include "cli/common/document_output.h"
#include "emu/process.h"
#include "plugin/base/units.h"
#include "plugin/coll/store/job_key.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/free_address.h"
#include "testbed/workload/result.h"
#include "testbed/world/metal_place.h"

namespace meshbed::testbed {
namespace {

namespace po = boost::program_options;

struct BenchLocalOptions {
  LocalRankOptions rank;
  int ranks = 8;
  int rounds = 5;
};

/// The version in the first line of `mpirun --version`, "mpirun (Open MPI) 4.1.4"; empty: there is no Open MPI.
std::string open_mpi() {
  try {
    const emu::ProgramResult asked = emu::run_program({"mpirun", "--version"});
    const std::string line = asked.output.substr(0, asked.output.find('\n'));
    if (asked.status == 0 && line.find("Open MPI") != std::string::npos) return line;
  } catch (const std::runtime_error&) {
    // It cannot be started: it is not there.
  }
  return "";
}

/// The milliseconds of each iteration.
std::vector<double> run_job(const BenchLocalOptions& options, const std::string& by) {
  constexpr int kLimitSeconds = 600;
  const LocalRankOptions& rank = options.rank;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe"), address = free_address();
  std::vector<std::string> words{"mpirun",    "--oversubscribe",
                                 "--timeout", std::to_string(kLimitSeconds),
                                 "-np",       std::to_string(options.ranks),
                                 "-x",        "MASTER_PORT=" + address.substr(address.rfind(':') + 1),
                                 "-x",        std::string(coll::kJobKeyVariable) + "=" + new_job_key()};
  if (geteuid() == 0) words.emplace_back("--allow-run-as-root");
  words.insert(words.end(), {program, "bench", "local", "--rank-by", by, "--algorithm", rank.algorithm});
  words.insert(words.end(), {"--bytes", std::to_string(rank.bytes), "--iterations", std::to_string(rank.iterations)});
  const emu::ProgramResult result = emu::run_program(words);
  const auto failed = [&](const std::string& why) {
    return std::runtime_error(fmt::format("bench local: by {}: {}", by, why));
  };
  if (result.status != 0) {
    throw failed(fmt::format("status {}: {}", result.status, emu::last_line(result.errors)));
  }
  struct Span {
    std::int64_t begin_ns = std::numeric_limits<std::int64_t>::max(), end_ns = 0;
    int ranks = 0;
  };
  std::map<int, Span> spans;
  int finished = 0;
  std::istringstream lines(result.output);
  for (std::string word; lines >> word;) {
    int iteration = 0;
    std::int64_t begin_ns = 0, end_ns = 0, wrong = 0;
    if (word == "iteration" && lines >> iteration >> begin_ns >> end_ns) {
      Span& span = spans[iteration];
      span.begin_ns = std::min(span.begin_ns, begin_ns);
      span.end_ns = std::max(span.end_ns, end_ns);
      ++span.ranks;
    } else if (word == "wrong" && lines >> wrong) {
      if (wrong != 0) throw failed(fmt::format("{} elements are wrong", wrong));
      ++finished;
    }
  }
  std::vector<double> times_ms;
  for (const auto& [iteration, span] : spans) {
    if (span.ranks != options.ranks) throw failed("a rank said nothing of an iteration");
    times_ms.push_back(1e-6 * static_cast<double>(span.end_ns - span.begin_ns));
  }
  if (finished != options.ranks || times_ms.size() != static_cast<std::size_t>(options.rank.iterations)) {
    throw failed("not all ranks came to their end");
  }
  return times_ms;
}

document::Document local_document(const BenchLocalOptions& options, const std::string& mpi) {
  using document::in_text, document::integer, document::number, document::text;
  document::Document report = bench_document("local");
  document::Section& section = report.sections.front();
  section.with({integer("bytes", "B", "of the all-reduce"), integer("ranks", "", "processes of a job"),
                integer("processors", "", "of the machine"), text("algorithm", "of the engine"),
                text("mpi", "name and version"), number("engine_ms", "ms", "median of all iterations"),
                number("mpi_ms", "ms", "median of all iterations"),
                number("ratio", "", "mpi to engine, median of the rounds")});
  section.with(
      document::Table{.key = "rounds",
                      .meaning = "a job of each kind",
                      .columns = {in_text("round", 5, ""), document::any("engine_ms", "of each iteration, [ms]"),
                                  document::any("mpi_ms", "of each iteration, [ms]"), in_text("engine", 8),
                                  in_text("MPI_Allreduce", 14), in_text("MPI/engine", 12)}});
  section.set("bytes", options.rank.bytes);
  section.set("ranks", options.ranks);
  section.set("processors", std::thread::hardware_concurrency());
  section.set("algorithm", options.rank.algorithm);
  section.set("mpi", mpi);
  section.line("all-reduce of {} bytes, {} processes on {} processors, {}; ms, median of {}", options.rank.bytes,
               options.ranks, std::thread::hardware_concurrency(), mpi, options.rank.iterations);
  section.show("rounds");
  return report;
}

}  // namespace

int bench_local_command(const Arguments& arguments, std::ostream& out) {
  Syntax syntax("bench local [options]");
  BenchLocalOptions options;
  options.rank.algorithm = "direct";
  std::string ranks_text = "8", bytes_text = "64M", iterations_text = "8", rounds_text = "5";
  DocumentOutput output;
  syntax.options.add_options()                                                                                //
      ("ranks", po::value(&ranks_text)->value_name("N")->default_value(ranks_text), "processes, of one job")  //
      ("bytes,b", po::value(&bytes_text)->value_name("SIZE")->default_value(bytes_text),
       "of the all-reduce, as in perf; of float32")  //
      ("iterations", po::value(&iterations_text)->value_name("N")->default_value(iterations_text),
       "timed ones of each job")  //
      ("rounds", po::value(&rounds_text)->value_name("N")->default_value(rounds_text),
       "jobs of each kind, in turns")  //
      ("algorithm", po::value(&options.rank.algorithm)->value_name("NAME")->default_value(options.rank.algorithm),
       "the engine's")  //
      ("rank-by", po::value(&options.rank.by)->value_name("engine|mpi"),
       "be one rank of such a job, under mpirun, and print its times");
  output.describe(syntax.options);
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;
  options.ranks = static_cast<int>(parse_count("--ranks", ranks_text, 1, 1024));
  options.rounds = static_cast<int>(parse_count("--rounds", rounds_text, 1, 1000));
  options.rank.iterations = static_cast<int>(parse_count("--iterations", iterations_text, 1, 1000));
  options.rank.bytes = parse_size(bytes_text);
  if (options.rank.bytes == 0 || options.rank.bytes % sizeof(float) != 0) {
    throw std::runtime_error(fmt::format("--bytes {}: not a multiple of 4, the bytes of a float", bytes_text));
  }
  if (!options.rank.by.empty()) {
    require_choice("--rank-by", "library", options.rank.by, {"engine", "mpi"});
    run_local_rank(options.rank, out);
    return kExitOk;
  }
  const std::string version = open_mpi();
  if (version.empty()) {
    out << "skipped: there is no mpirun of Open MPI to compare with (Debian: openmpi-bin)\n";
    return kExitOk;
  }
  document::Document report = local_document(options, version);
  document::Section& section = report.sections.front();
  output.show(report, out);
  std::vector<double> engine_ms, mpi_ms, ratios;
  for (int round = 1; round <= options.rounds; ++round) {
    // Who begins changes, too: the one before leaves the machine warm.
    std::vector<double> mpi, engine;
    if (round % 2 == 0) mpi = run_job(options, "mpi");
    engine = run_job(options, "engine");
    if (round % 2 == 1) mpi = run_job(options, "mpi");
    ratios.push_back(median(mpi) / median(engine));
    section.table("rounds").add({std::to_string(round), engine, mpi, fmt::format("{:.1f}", median(engine)),
                                 fmt::format("{:.1f}", median(mpi)), fmt::format("{:.2f}", ratios.back())});
    output.show(report, out);
    engine_ms.insert(engine_ms.end(), engine.begin(), engine.end());
    mpi_ms.insert(mpi_ms.end(), mpi.begin(), mpi.end());
  }
  section.set("engine_ms", median(engine_ms));
  section.set("mpi_ms", median(mpi_ms));
  section.set("ratio", median(ratios));
  section.line("  all {:8.1f} {:14.1f} {:12.2f}", median(engine_ms), median(mpi_ms), median(ratios));
  report.sections.push_back(bench_provenance());
  output.finish(report, out);
  return kExitOk;
}

}  // namespace meshbed::testbed
