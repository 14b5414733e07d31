// Files that `meshbed ring import` reads: MPK's task graphs, traces of kernels, command lines of benchmarks. What is
// read becomes a program that is read again.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>

#include "testbed/base/diagnostics.h"
#include "testbed/import/rings/ring_import.h"
#include "testbed/scenario/megakernel/slot_graph.h"

namespace {

using namespace meshbed::testbed;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::abort();
}

/// It is refused with a reason, or what comes of it can be read again.
void import(const std::function<rings::ImportedGraph()>& read) {
  std::string text;
  try {
    const rings::ImportedGraph imported = read();
    constexpr std::size_t kSlotsMost = 20'000;  // more take seconds to be read again
    if (imported.graph.slots() > kSlotsMost) return;
    text = slot_graph_text(imported.graph, "fuzz");
  } catch (const std::runtime_error& error) {
    if (std::string(error.what()).empty()) fail("refused without a reason");
    return;
  }
  Diagnostics diagnostics("imported.toml");
  (void)parse_slot_graph(text, "imported.toml", diagnostics);
  try {
    diagnostics.throw_if_any();
  } catch (const ScenarioError& error) {
    fail(std::string(error.what()) + "\n" + text);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const rings::ImportText file{"x", std::string(reinterpret_cast<const char*>(data), size)};
  constexpr meshbed::Picoseconds kTask_ps = 5'000'000;
  import([&] { return rings::import_task_graph({file}, {{"all", kTask_ps}});
});
  import([&] { return rings::import_task_graph({file, file}, {{"all", kTask_ps}});
  });
  import([&] {
    const auto kernels = rings::read_kernels(file, {.step = "", .bytes_of = {{"all_reduce", 4096}}});
  return rings::import_kernels({kernels.front(), kernels.front()}, file.path);
  });
  try {
    const rings::ExpertSettings settings = rings::read_expert_settings(file);
    (void)rings::expert_scenario(settings, 8, "400Gb/s", "fuzz");
  } catch (const std::runtime_error& error) {
    if (std::string(error.what()).empty()) fail("refused without a reason");
  }
  return 0;
  }
