// docs/troubleshooting.md.

#include <fmt/format.h>

#include <string>

#include "testbed/diagnose/causes/causes.h"

namespace meshbed::testbed::diagnose {

std::string troubleshooting_page() {
  std::string text =
      "# Troubleshooting\n\n"
      "From the words of a log to the cause, a check and a fix. `meshbed diagnose LOG` finds the words itself, and "
      "weighs "
      "them against the other lines ([diagnose](diagnose.md)).\n\n"
      "This page is generated (`meshbed diagnose --table`); a test compares the two. `*` stands for any text within a "
      "line.\n\n"
      "| status | in words (`ibv_wc_status_str`, rdma-core) | see |\n|---|---|---|\n"
      "| status=2 | local QP operation err, local QP operation error | [access-error](#access-error) |\n"
      "| status=4 | local protection error | [acs-iommu](#acs-iommu) |\n"
      "| status=5 | Work Request Flushed Error: follows from an earlier error | [retry-exceeded](#retry-exceeded) |\n"
      "| status=9 | remote invalid request error | [access-error](#access-error) |\n"
      "| status=10 | remote access error, vendor err 136 | [access-error](#access-error) |\n"
      "| status=11 | remote operation error | [access-error](#access-error) |\n"
      "| status=12 | transport retry counter exceeded, vendor err 129 | [retry-exceeded](#retry-exceeded), "
      "[port-down](#port-down), [rank-dead](#rank-dead) |\n"
      "| status=13 | RNR retry counter exceeded | [rnr-exceeded](#rnr-exceeded) |\n"
      "| error 22 | Invalid argument of ibv_modify_qp | [wrong-gid](#wrong-gid) |\n"
      "| error 101, error 113 | Network is unreachable, No route to host | [no-path](#no-path), [firewall](#firewall) "
      "|\n"
      "| error 110 | Connection timed out of ibv_modify_qp | [no-path](#no-path), [crossed-cable](#crossed-cable) |\n"
      "| error 110, errno 110 | Connection timed out of a socket | [bootstrap-timeout](#bootstrap-timeout) |\n"
      "| errno 111 | Connection refused | [bootstrap-refused](#bootstrap-refused) |\n";
  for (const CauseInfo& info : cause_infos()) {
    text += fmt::format("\n## {}\n\n**{}.** {}\n\n", info.name, info.title, info.cause);
    std::string rows;
    for (const Symptom& symptom : symptoms()) {
      if (symptom.cause != info.code) continue;
      rows += fmt::format("| `{}` | {} | {} |\n", symptom.pattern, symptom.says, symptom.source);
    }
    if (!rows.empty()) text += "| words | what they say | source |\n|---|---|---|\n" + rows + "\n";
    text += fmt::format("- Check: {}\n- Fix: {}\n", info.check, info.fix);
    if (info.reproducible) text += "- `meshbed diagnose SCENARIO --prove` shows it in a run.\n";
  }
  return text;
}

}  // namespace meshbed::testbed::diagnose
