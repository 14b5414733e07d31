#pragma once
// SlotGraph: what the slots of each rank do, as a file says it: workload.megakernel.program = "FILE.toml" or
// "FILE.jsonl". docs/megakernel.md has the format; `meshbed ring program NAME` prints the built-in programs in it.
//
// Nomenclature
//   need       another slot that has to be done before: "ID" of the same rank, "RANK:ID" of another one
//   message    what a put carries. A need of a put to one's own rank is met by its arrival; a need of any other slot of
//              another rank by a message of 8 bytes that its rank sends once it is done

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "plugin/base/result.h"
#include "plugin/coll/plan/slots.h"
#include "plugin/ring/abi/abi.h"
#include "testbed/base/diagnostics.h"

namespace meshbed::testbed {

enum class GraphOp : std::uint8_t { kCompute, kPut, kWait, kReduce, kCopy };
inline constexpr std::array<const char*, 5> kGraphOps{"compute", "put", "wait", "reduce", "copy"};
inline constexpr std::array<const char*, coll::kSpaces> kGraphSpaces{"input", "output", "staging", "work", "made"};
inline constexpr std::array<const char*, ring::priority::kLevels> kGraphLevels{"critical", "high", "normal", "low",
                                                                               "idle"};
inline constexpr std::array<const char*, 4> kGraphForms{"first", "between", "last", "only"};

struct GraphNeed {
  int rank = 0;
  std::size_t slot = 0;  // among that rank's

  bool operator==(const GraphNeed&) const = default;
};

/// Whose a slot is, and when it arrives at the host.
struct SlotMark {
  ring::Word tenant = 0, level = ring::priority::kNormal;
  std::uint64_t arrives_ns = 0;  // after the iteration's start
  bool operator==(const SlotMark&) const = default;
};

struct GraphSlot {
  Place place{};
  std::string id;
  GraphOp op = GraphOp::kCompute;
  std::vector<GraphNeed> needs{};
  std::uint64_t time_ns = 0;            // of a compute
  int peer = -1, channel = 0;           // of a put
  std::uint64_t bytes = 0;              // of a put and a copy; of a reduce elements
  coll::Form form = coll::Form::kOnly;  // of a reduce
  bool on_chip = false;                 // its partial result takes no time in memory
  coll::Area from{}, with{}, to{};      // with: the second operand of a reduce
  bool lands = false;                   // a wait says where its message lands: `to`
  bool begins = false;                  // an operation, which may have a kernel of its own
  SlotMark mark{};
};

struct SlotGraph {
  std::string path;
  std::vector<std::vector<GraphSlot>> ranks{};
  std::vector<double> speed{};         // of each rank: its computes take time / speed
  std::vector<std::string> tenants{};  // names by number; empty: all slots are tenant 0's

  std::size_t slots() const;
};

/// TOML, or JSON Lines where the name ends in .jsonl. Reports to `diagnostics` with line and column: unknown keys,
/// names and ranks, what an operation lacks, two landings of one message.
SlotGraph parse_slot_graph(const std::string& text, const std::string& path, Diagnostics& diagnostics);
/// Throws ScenarioError with all that is wrong with the file.
SlotGraph read_slot_graph(const std::string& path);

/// One rank's slots. More than two needs (of a put more than one) are joined by slots that do nothing.
struct GraphProgram {
  coll::SlotProgram slots;
  std::vector<bool> begins;       // by slot
  std::vector<SlotMark> marks{};  // by slot; empty: all are as a SlotMark is made
};
/// The memory that slots name: of all ranks and spaces, and the largest of one.
struct GraphMemory {
  std::uint64_t all_bytes = 0, largest_bytes = 0;
};
GraphMemory memory_of(const SlotGraph& graph, std::size_t element_bytes);
/// kInvalidArgument: more slots or bytes than a ring can name.
Result<GraphProgram> program_of(const SlotGraph& graph, int rank);
/// [space] bytes that a rank's slots name; elements that a reduction keeps have `element_bytes` at most.
std::array<std::uint64_t, coll::kSpaces> space_bytes_of(const coll::SlotProgram& program, std::size_t element_bytes);

/// The same as a file, a line a slot: `programs` by rank, as a SlotBuilder made them. `comment`: its first line.
std::string slot_graph_text(const std::vector<GraphProgram>& programs, const std::string& comment);

/// A graph as a file: its slots as they are, with their names.
std::string slot_graph_text(const SlotGraph& graph, const std::string& comment);

}  // namespace meshbed::testbed
