// Arbitrary logs, JSON and tables: read or refused in words, and a diagnosis of what was read is made of it. The
// first byte chooses a text that goes before it, so that readers which want a heading have one. Seeds: seeds/diagnose.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "testbed/base/json_text.h"
#include "testbed/diagnose/diagnose.h"
#include "testbed/diagnose/read/read.h"

using namespace meshbed::testbed;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  constexpr const char* kHeads[] = {"",
                                    "Job summary\n",
                                    "h:1:2 [0] NCCL INFO ",
                                    "{\"communicators\": [",
                                    "{\"entries\": [",
                                    "posted_ps,status,tries\n",
                                    "meshbed: rank 0: NET/Mesh : Mesh 0.1.0: 1 NIC: "};
  std::string text = kHeads[data[0] % std::size(kHeads)];
  text.append(reinterpret_cast<const char*>(data + 1), size - 1);
  diagnose::Case found;
  try {
    diagnose::read_text(text, "fuzzed", found);
  } catch (const std::runtime_error& error) {
    if (error.what()[0] == '\0') std::abort();
    return 0;
  }
  const diagnose::Diagnosis diagnosis = diagnose::judge(found);
  for (const diagnose::FoundCause& cause : diagnosis.causes) {
    if (cause.evidence.empty() || cause.likelihood < diagnose::kLeastLikelihood || cause.likelihood > 1) std::abort();
  }
  (void)json_text(diagnose::json_of(diagnosis));
  (void)diagnose::text_of(diagnosis);
  return 0;
}
