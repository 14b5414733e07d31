#include "testbed/sweep/part.h"

#include <fmt/format.h>

#include <charconv>
#include <initializer_list>
#include <optional>
#include <stdexcept>
#include <system_error>

#include "emu/shell_quote.h"

namespace meshbed::testbed::sweep {
namespace {

std::optional<int> number_in(const Lookup& environment, const char* name) {
  const auto text = environment(name);
  if (!text) return std::nullopt;
  int number = 0;
  const auto [end, problem] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (problem != std::errc() || end != text->data() + text->size() || number < 0) {
    throw std::runtime_error(fmt::format("sweep: {}={} is not a number; start the job again", name, *text));
  }
  return number;
}

/// The first of these that is set.
std::string first_of(const Lookup& environment, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const auto text = environment(name); text && !text->empty()) return *text;
  }
  throw std::runtime_error(
      fmt::format("sweep: one of several ranks, without {}, which names their job; set it to a new "
                  "value for all of them",
                  *names.begin()));
}

Part checked(int index, int count, const char* what) {
  if (index >= count) {
    throw std::runtime_error(
        fmt::format("sweep: {} {} of {}: is out of range; start the job again", what, index, count));
  }
  return {.index = index, .count = count, .job = ""};
}

}  // namespace

Part mpi_part(const Lookup& environment) {
  const auto index = number_in(environment, "OMPI_COMM_WORLD_RANK"),
             count = number_in(environment, "OMPI_COMM_WORLD_SIZE");
  if (index && count) {
    Part part = checked(*index, *count, "rank");
    if (part.count > 1) part.job = first_of(environment, {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"});
    return part;
  }
  const auto rank = number_in(environment, "PMI_RANK"), size = number_in(environment, "PMI_SIZE");
  if (!rank || !size) return {};
  Part part = checked(*rank, *size, "rank");
  if (part.count > 1) part.job = first_of(environment, {"PMI_JOBID", "SLURM_JOB_ID"});
  return part;
}

Part slurm_part(const Lookup& environment) {
  const auto task = number_in(environment, "SLURM_ARRAY_TASK_ID"),
             count = number_in(environment, "SLURM_ARRAY_TASK_COUNT");
  if (!task || !count) {
    throw std::runtime_error(
        "--slurm-task: this is not a task of a Slurm job array; submit the script that --slurm prints");
  }
  Part part = checked(*task - number_in(environment, "SLURM_ARRAY_TASK_MIN").value_or(0), *count, "task");
  part.job = first_of(environment, {"SLURM_ARRAY_JOB_ID"});
  return part;
}

std::string slurm_script(const std::string& command, const std::string& folder, int tasks) {
  return fmt::format(
      "#!/bin/sh\n"
      "# Submit it with sbatch. The task that ends last prints the table.\n"
      "#SBATCH --job-name=meshbed-sweep\n"
      "#SBATCH --array=0-{}\n"
      "#SBATCH --ntasks=1\n"
      "cd {} || exit 2\n"
      "exec {} --slurm-task\n",
      tasks - 1, emu::shell_quote(folder), command);
}

}  // namespace meshbed::testbed::sweep
