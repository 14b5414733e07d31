#include "testbed/library/message_columns.h"

#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <system_error>
#include <type_traits>

namespace meshbed::testbed {
namespace {

constexpr std::size_t kAlignment = 8;

template <typename T>
constexpr const char* type_name() {
  if constexpr (std::is_signed_v<T>) return sizeof(T) == 8 ? "int64" : "int32";
  return sizeof(T) == 8 ? "uint64" : "uint32";
}

/// Writes columns at the end of a file.
class ColumnWriter {
 public:
  ColumnWriter(int descriptor, const std::vector<sim::MessageRecord>& records)
      : descriptor_(descriptor), records_(records) {}

  template <typename Get>
  void add(const char* name, const Get& get) {
    using Element = std::decay_t<decltype(get(records_.front()))>;
    std::vector<Element> column;
    column.reserve(records_.size() + 1);
    for (const sim::MessageRecord& record : records_) column.push_back(get(record));
    columns_.push_back({{"name", name}, {"type", type_name<Element>()}, {"offset", offset_}});
    write_bytes(reinterpret_cast<const char*>(column.data()), column.size() * sizeof(Element));
    const std::size_t padding = (kAlignment - offset_ % kAlignment) % kAlignment;
    constexpr char kZeros[kAlignment] = {};
    write_bytes(kZeros, padding);
  }
  nlohmann::ordered_json take() { return std::move(columns_); }

 private:
  void write_bytes(const char* bytes, std::size_t size) {
    while (size > 0) {
      const ssize_t count = ::write(descriptor_, bytes, size);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) throw std::system_error(errno, std::generic_category(), "the messages cannot be kept");
      bytes += count;
      size -= static_cast<std::size_t>(count);
      offset_ += static_cast<std::size_t>(count);
    }
  }

  int descriptor_;
  const std::vector<sim::MessageRecord>& records_;
  std::size_t offset_ = 0;
  nlohmann::ordered_json columns_ = nlohmann::ordered_json::array();
};

}  // namespace

nlohmann::ordered_json MessageColumns::write_to(int descriptor) const {
  using Record = sim::MessageRecord;
  ColumnWriter writer(descriptor, records_);
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
