#include "cli/bench/perf_flags.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <stdexcept>
#include <string_view>

namespace meshbed::testbed {
namespace {

struct Flag {
  const char* name;  // as boost::program_options takes it: long name, letter
  char letter;
  int same;  // the value that equals the behaviour here
  bool harmless;
  const char* help;
  const char* reason;
};

/// The values of `same` are nccl-tests' defaults, except for -a, whose default (1, the average over ranks) is not
/// available here.
constexpr std::array<Flag, 11> kFlags{{
    {"parallel_init,p", 'p', 0, true, "passed over: each rank is a process here, and all begin at one time",
     "each rank is a process here, and all begin at one time"},
    {"stream_null,y", 'y', 0, true, "passed over: there are no streams here", "the host makes the calls, on no stream"},
    {"timeout,T", 'T', 0, false, "0: limits.time and --time-limit end a run",
     "the scenario's limits.time ends a simulated run, --time-limit any other; give that one"},
    {"report_cputime,C", 'C', 0, false, "0: times are those of the operations",
     "the times here are those of the operations; what the software costs is meshbed bench's to say"},
    {"report_timestamps,S", 'S', 0, false, "0: virtual time has no date",
     "virtual time has no date; -J FILE has when the command began and ended"},
    {"average,a", 'a', 3, false, "3: a time ends when the last rank has ended",
     "a time here ends when the last rank has its result, which is -a 3, from a start that all ranks have in common"},
    {"cta_policy,x", 'x', -1, false, "not here: no kernel is launched",
     "no kernel of a collective is launched here, so that none has thread arrays; workload.channels is the nearest"},
    {"device_implementation,D", 'D', 0, false, "0: the host calls",
     "the host calls the collectives here; kernels that send themselves are megakernels ([workload.megakernel], "
     "initiation = \"device\") and meshbed run's"},
    {"device_cta_count,V", 'V', 16, false, "not here: see -D", "it is for -D, which perf does not have"},
    {"memory,M", 'M', 0, false, "0: no GPU memory is used", "perf's buffers are host memory, and no GPU's is used"},
    {"unalign,u", 'u', 0, false, "0: buffers are aligned",
     "buffers begin on a page here, and no model would see another address"},
}};

}  // namespace

PerfFlags::PerfFlags() {
  for (std::size_t index = 0; index < kFlags.size(); ++index) values_.push_back(kFlags[index].same);
}

void PerfFlags::add_to(boost::program_options::options_description& options) {
  namespace po = boost::program_options;
  for (std::size_t index = 0; index < kFlags.size(); ++index) {
    options.add_options()(kFlags[index].name, po::value(&values_[index])->value_name("N"), kFlags[index].help);
  }
}

std::vector<std::string> PerfFlags::notes() const {
  std::vector<std::string> found;
  for (std::size_t index = 0; index < kFlags.size(); ++index) {
    const Flag& flag = kFlags[index];
    if (values_[index] == flag.same) continue;
    if (!flag.harmless) {
      throw std::runtime_error(fmt::format("-{} {}: {}; leave it out", flag.letter, values_[index], flag.reason));
    }
    found.push_back(fmt::format("-{} {} changes nothing: {}", flag.letter, values_[index], flag.reason));
  }
  return found;
}

}  // namespace meshbed::testbed
