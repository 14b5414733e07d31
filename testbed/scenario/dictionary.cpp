// The field dictionary: scenarios/README.md, from the same tables that read the files.

#include <fmt/format.h>

#include <cstddef>

#include "testbed/scenario/scenario.h"
#include "testbed/scenario/section.h"

namespace meshbed::testbed {
namespace {

constexpr const char* kHead = R"(# Scenario files

A scenario is one TOML file: what is cabled how, what runs on it, what goes wrong and what must come out.
Each file here is a test: it must keep what its `[expect]` promises.

This page is generated from the reader's own tables (`meshbed lint --dictionary`); a test compares the two.

- A key that is not listed here is an error. So is a value out of range, a name that nothing has, an overlap of subnets.
- **rate**: text with a unit, `"100Gb/s"`, `"25 Gbit/s"`, or an integer in bits per second. Prefixes are powers of 1000.
- **time**: text with a unit: `ps`, `ns`, `us`, `ms`, `s`, as in `"1.5us"`, up to `"100000s"`.
- **size**: `"64M"`, `"64MiB"`, `"1K"`, or an integer in bytes. Prefixes are powers of 1024, as in nccl-tests.
- **prefix**: `"192.168.100.1/24"`. **name**: letters, digits and `_ . : + -`.
- Every command takes `--set SECTION.KEY=VALUE`: `--set workload.bytes=1M`, `--set topology.nodes=64`,
  `--set cable.0.rate=25Gb/s` (first `[[cable]]` of the file), `--set cable.node0-node1.rate=25Gb/s` (by name, generated
  ones, too), `--set node.node1.device_order=reversed`, `--set node.node0.nic.rocep1s0f0.link=down`. A name that nothing
  has is an error: `--set` changes hardware, and makes none.
- `--set cabling=FILE.toml` takes `[topology]`, nodes, cables, switches, routers and `[management]` of another scenario
  file, in place of this one's; workload, faults and all else stay.
- Defaults in (brackets) depend on something else.
)";

/// A '|' would end the table's cell.
std::string cell(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
  return text;
}

/// TOML text of a default as code; words in brackets as they are.
std::string default_cell(const std::string& initial) {
  if (initial.empty() || initial == "''" || initial == "{}") return "";
  if (initial.front() == '(') return initial;
  const bool quoted = initial.front() == '\'';
  return quoted ? fmt::format("`\"{}\"`", initial.substr(1, initial.size() - 2)) : fmt::format("`{}`", initial);
}

template <typename T>
std::string section_text() {
  const Section<T>& section = section_of<T>();
  std::string text = fmt::format("\n## {}\n{}\n\n| key | type | default | meaning |\n|---|---|---|---|\n",
                                 section.heading, section.meaning);
  for (const auto& field : section.fields) {
    text += fmt::format("| `{}` | {} | {} | {} |\n", field.key, cell(field.type), cell(default_cell(field.initial)),
                        cell(field.meaning));
  }
  if (!section.kinds.empty()) text += "\n" + section.kinds;
  return text;
}

template <typename... Specs>
std::string sections_text() {
  return (section_text<Specs>() + ...);
}

}  // namespace

std::string scenario_dictionary() {
  return kHead + sections_text<ScenarioSpec, TopologySpec, NodeSpec, NicSpec, GidSpec, PcieSpec, BondSpec, CableSpec,
                               SwitchSpec, BoxSpec, TrunkSpec, RouterSpec, ManagementSpec, FabricSpec, ReplaySpec,
                               ModelsSpec, WorkloadSpec, MegakernelSpec, LimitsSpec, FaultSpec, ExpectSpec>();
}

}  // namespace meshbed::testbed
