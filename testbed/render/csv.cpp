// A table as CSV.

#include <string>

#include "testbed/base/json_text.h"
#include "testbed/render/render.h"

namespace meshbed::testbed::document {
namespace {

std::string csv_text(const Value& value) {
  std::string text = value.is_null() ? "" : value.is_string() ? value.get<std::string>() : json_text(value);
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char letter : text) {
    if (letter == '"') quoted += '"';
    quoted += letter;
  }
  return quoted + '"';
}

}  // namespace

std::string csv_of(const Table& table) {
  std::string csv;
  const auto add_line = [&](const auto& text_at) {
    std::string line;
    bool is_first = true;
    for (std::size_t index = 0; index < table.columns.size(); ++index) {
      if (table.columns[index].key.empty()) continue;
      line += (is_first ? "" : ",") + text_at(index);
      is_first = false;
    }
    csv += line + '\n';
  };
  add_line([&](std::size_t index) { return csv_text(table.columns[index].key); });
  for (const Row& row : table.rows) add_line([&](std::size_t index) { return csv_text(row.cells[index]); });
  return csv;
}

}  // namespace meshbed::testbed::document
