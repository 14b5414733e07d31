#include "testbed/result/nccl_decisions.h"

#include <algorithm>

namespace meshbed::testbed::document {

Section nccl_section_shape() {
  Section section{.key = "nccl", .title = "NCCL", .empty = Empty::kNull};
  section.with({text("file", "the libnccl.so.2 that the ranks loaded"), text("version", "as the library reports it"),
                text("sha256", "of the file")});
  section.with(
      Table{.key = "decisions",
            .meaning = "how NCCL carried out each operation and size, as its profiler announced it",
            .columns = {text("operation", "NCCL's name").shown("nccl decided", 14, "").left(),
                        text("datatype", "NCCL's name").shown("type", 9).left(),
                        integer("size_bytes", "B", "as nccl-tests counts it").shown("size (B)", 12),
                        integer("ranks", "", "of the communicator").shown("ranks", 6),
                        text("algorithm", "null if not announced").or_null().shown("algorithm", 16, "  ").left(),
                        text("protocol", "null if not announced").or_null().shown("protocol", 8).left(),
                        integer("channels", "", "null if not announced").or_null().shown("channels", 8),
                        integer("calls", "", "of the rank that made most").shown("calls", 8)}});
  return section;
}

Section nccl_section(const LoadedNccl& nccl) {
  Section section = nccl_section_shape();
  section.has_values = !nccl.file.empty();
  if (!section.has_values) return section;
  section.set("file", nccl.file);
  section.set("version", nccl.version);
  section.set("sha256", nccl.sha256);
  section.line("nccl {}: {}, SHA-256 {}", nccl.version, nccl.file, nccl.sha256.substr(0, 16));
  if (nccl.decisions.empty()) return section;
  for (const NcclDecision& one : nccl.decisions) {
    section.table("decisions")
        .add({one.operation, one.datatype, one.bytes, one.ranks, known_value(!one.algorithm.empty(), one.algorithm),
              known_value(!one.protocol.empty(), one.protocol), known_value(one.is_announced(), one.channels),
              one.calls});
  }
  section.show("decisions");
  const bool is_complete = std::all_of(nccl.decisions.begin(), nccl.decisions.end(),
                                       [](const NcclDecision& one) { return one.is_announced(); });
  if (!is_complete) {
    section.line("- in all three: NCCL announced the call to its profiler, and not what it decided (docs/nccl.md)");
  }
  return section;
}

}  // namespace meshbed::testbed::document
