// A plan as two shell scripts.
#include <fmt/format.h>

#include "emu/namespace/namespace_plan.h"
#include "emu/shell_quote.h"

namespace meshbed::emu {

std::string set_up_script(const NamespacePlan& plan) {
  std::string text = fmt::format("#!/bin/sh\n# {}, layout {}; to be run as root\nset -e\n", plan.options.title,
                                 to_text(plan.options.layout));
  for (const NamespaceStep& step : plan.steps) text += step.apply + "\n";
  return text;
}

std::string take_down_script(const NamespacePlan& plan) {
  std::string text = fmt::format(
      "#!/bin/sh\n# Takes down what meshbed emu set up, wholly or in part. To be run as root.\n"
      "{}{} {} {} {}\nfailed=0\n"
      "undo() {{ sh -c \"$1\" || {{ echo \"not undone: $1\" >&2; failed=1; }}; }}\n",
      kPlanMark, plan.digest, plan.options.owner, to_text(plan.options.layout), plan.options.title);
  for (auto step = plan.steps.rbegin(); step != plan.steps.rend(); ++step) {
    if (!step->undo.empty()) text += fmt::format("undo {}\n", shell_quote(step->undo));
  }
  return text + fmt::format("[ $failed = 0 ] || exit 1\nrm -f {}\nrmdir {} 2>/dev/null || :\n",
                            state_file(plan.options.folder), plan.options.folder);
}

std::string state_file(const std::string& folder) { return folder + "/emu-down.sh"; }

}  // namespace meshbed::emu
