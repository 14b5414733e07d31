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
  for (std::size_t index = 0; index < table.columns.size(); ++index) {
    csv += (index == 0 ? "" : ",") + csv_text(table.columns[index].key);
  }
  csv += '\n';
  for (const Row& row : table.rows) {
    for (std::size_t index = 0; index < row.cells.size(); ++index) {
      csv += (index == 0 ? "" : ",") + csv_text(row.cells[index]);
    }
    csv += '\n';
  }
  return csv;
}

}  // namespace meshbed::testbed::document
