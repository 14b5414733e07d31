#include "testbed/library/child/message_columns.h"

#include <array>
#include <nlohmann/json.hpp>
#include <ostream>
#include <type_traits>
#include <utility>

namespace meshbed::testbed {
namespace {

constexpr std::size_t kAlignment = 8;

template <typename T>
constexpr const char* type_name() {
  if constexpr (std::is_signed_v<T>) return sizeof(T) == 8 ? "int64" : "int32";
  return sizeof(T) == 8 ? "uint64" : "uint32";
}

class ColumnWriter {
 public:
  ColumnWriter(std::ostream& out, const std::vector<sim::MessageRecord>& records) : out_(out), records_(records) {}

  template <typename Get>
  void add(const char* name, const Get& get) {
    using Element = std::decay_t<decltype(get(records_.front()))>;
    std::vector<Element> column;
    column.reserve(records_.size());
    for (const sim::MessageRecord& record : records_) column.push_back(get(record));
    columns_.push_back({{"name", name}, {"type", type_name<Element>()}, {"offset", offset_}});
    const std::size_t bytes = column.size() * sizeof(Element);
    const std::size_t padding = (kAlignment - bytes % kAlignment) % kAlignment;
    out_.write(reinterpret_cast<const char*>(column.data()), static_cast<std::streamsize>(bytes));
    out_.write(std::array<char, kAlignment>{}.data(), static_cast<std::streamsize>(padding));
    offset_ += bytes + padding;
  }
  nlohmann::ordered_json take() { return std::move(columns_); }

 private:
  std::ostream& out_;
  const std::vector<sim::MessageRecord>& records_;
  std::size_t offset_ = 0;
  nlohmann::ordered_json columns_ = nlohmann::ordered_json::array();
};

}  // namespace

nlohmann::ordered_json MessageColumns::write_to(std::ostream& out) const {
  using Record = sim::MessageRecord;
  ColumnWriter writer(out, records_);
  writer.add("posted_ps", [](const Record& record) { return record.posted_ps; });
  writer.add("started_ps", [](const Record& record) { return record.started_ps; });
  writer.add("delivered_ps", [](const Record& record) { return record.delivered_ps; });
  writer.add("completed_ps", [](const Record& record) { return record.completed_ps; });
  writer.add("source_rank", [](const Record& record) { return record.source_rank; });
  writer.add("destination_rank", [](const Record& record) { return record.destination_rank; });
  writer.add("source_node", [](const Record& record) { return record.source.node; });
  writer.add("source_nic", [](const Record& record) { return record.source.nic; });
  writer.add("destination_node", [](const Record& record) { return record.destination.node; });
  writer.add("destination_nic", [](const Record& record) { return record.destination.nic; });
  writer.add("source_qp", [](const Record& record) { return record.source_qp; });
  writer.add("destination_qp", [](const Record& record) { return record.destination_qp; });
  writer.add("sequence", [](const Record& record) { return record.sequence; });
  writer.add("opcode", [](const Record& record) { return record.opcode; });
  writer.add("payload_bytes", [](const Record& record) { return record.payload_bytes; });
  writer.add("wire_bytes", [](const Record& record) { return record.wire_bytes; });
  writer.add("status", [](const Record& record) { return record.status; });
  writer.add("tries", [](const Record& record) { return record.tries; });
  writer.add("deliveries", [](const Record& record) { return record.deliveries; });
  writer.add("immediate", [](const Record& record) { return record.immediate; });
  return writer.take();
}

}  // namespace meshbed::testbed
