#pragma once
// What `meshbed diagnose` does with one file: it is read or refused in words, and what is read becomes text and JSON.

#include <iterator>
#include <stdexcept>
#include <string>

#include "testbed/base/json_text.h"
#include "testbed/diagnose/diagnose.h"
#include "testbed/diagnose/read/read.h"

namespace meshbed::test {

/// The first byte chooses a text that goes before the others, so that readers which want a heading have one.
inline std::string diagnose_text(const std::string& data) {
  constexpr const char* kHeads[] = {"",
                                    "Job summary\n",
                                    "h:1:2 [0] NCCL INFO ",
                                    "{\"communicators\": [",
                                    "{\"entries\": [",
                                    "posted_ps,status,tries\n",
                                    "meshbed: rank 0: NET/Mesh : Mesh 0.1.0: 1 NIC: "};
  if (data.empty()) return "";
  return kHeads[static_cast<unsigned char>(data.front()) % std::size(kHeads)] + data.substr(1);
}

/// Empty: all is well; else what is wrong.
inline std::string diagnose_problem(const std::string& text) {
  namespace diagnose = testbed::diagnose;
  diagnose::Case found;
  try {
    diagnose::read_text(text, "input", found);
  } catch (const std::runtime_error& error) {
    return std::string(error.what()).empty() ? "refused without a reason" : "";
  }
  const diagnose::Diagnosis diagnosis = diagnose::judge(found);
  for (const diagnose::FoundCause& cause : diagnosis.causes) {
    if (cause.evidence.empty()) return "a cause without evidence";
    if (!(cause.likelihood >= diagnose::kLeastLikelihood && cause.likelihood <= 1))
      return "a likelihood beyond its bounds";
  }
  if (testbed::json_text(diagnose::json_of(diagnosis)).empty()) return "no JSON";
  return diagnose::text_of(diagnosis).empty() ? "no text" : "";
}

}  // namespace meshbed::test
