#pragma once
// MessageColumns: the messages of a run column by column, for programs that compute with them.

#include <cstddef>
#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "sim/verbs/verbs_host.h"

namespace meshbed::testbed {

class MessageColumns final : public sim::MessageSink {
 public:
  void message(const sim::MessageRecord& record) override { records_.push_back(record); }

  /// Writes all columns, each at a multiple of 8 bytes: [{"name", "type", "offset"}].
  nlohmann::ordered_json write_to(std::ostream& out) const;
  std::size_t count() const { return records_.size(); }

 private:
  std::vector<sim::MessageRecord> records_;
};

}  // namespace meshbed::testbed
