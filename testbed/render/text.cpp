// A document as text for a terminal.

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "testbed/render/render.h"

namespace meshbed::testbed::document {
namespace {

std::string text_of(const Field& column, const Value& value) {
  if (value.is_null()) return "-";
  if (value.is_string()) return value.get<std::string>();
  if (column.unknown_if_negative && value.is_number() && value.get<double>() < 0) return "-";
  if (column.decimals >= 0 && value.is_number()) {
    const double shown = value.get<double>() * column.scale;
    return column.with_sign ? fmt::format("{:+.{}f}", shown, column.decimals)
                            : fmt::format("{:.{}f}", shown, column.decimals);
  }
  return value.dump(-1, ' ', false, Value::error_handler_t::replace);
}

void add_cell(std::string& line, const Field& column, const std::string& text, std::size_t width) {
  line += column.to_the_left ? fmt::format("{:<{}}", text, width) : fmt::format("{:>{}}", text, width);
}

std::string without_trailing_spaces(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

std::string heading_of(const Table& table) {
  std::string line;
  for (const Field& column : table.columns) {
    if (column.title.empty()) continue;
    line += line.empty() && !table.heading_before.empty() ? table.heading_before : column.before;
    add_cell(line, column, column.title, static_cast<std::size_t>(column.width) + column.after.size());
  }
  return without_trailing_spaces(std::move(line));
}

std::string line_of(const Table& table, const Row& row) {
  std::string line;
  for (std::size_t index = 0; index < table.columns.size(); ++index) {
    const Field& column = table.columns[index];
    if (column.title.empty()) continue;
    line += column.before;
    add_cell(line, column, text_of(column, row.cells[index]), static_cast<std::size_t>(column.width));
    line += column.after;
  }
  if (!row.note.empty()) return line + "  " + row.note;
  return without_trailing_spaces(std::move(line));
}

}  // namespace

std::vector<std::string> text_lines(const Section& section) {
  std::vector<std::string> lines;
  for (const Block& block : section.blocks) {
    if (block.fields_width > 0) {
      for (const auto& [field, value] : section.fields) {
        lines.push_back(fmt::format("{:<{}}{}", field.key, block.fields_width, text_of(field, value)));
      }
      continue;
    }
    if (block.table < 0) {
      lines.push_back(block.line);
      continue;
    }
    const Table& table = section.tables[static_cast<std::size_t>(block.table)];
    if (block.has_heading) lines.push_back(heading_of(table));
    const std::size_t shown = std::min(block.rows_max, table.rows.size());
    for (std::size_t row = 0; row < shown; ++row) lines.push_back(line_of(table, table.rows[row]));
    if (shown < table.rows.size()) {
      lines.push_back(fmt::format("  ... and {} more, all in {}", table.rows.size() - shown, table.all_in));
    }
  }
  return lines;
}

std::string text_of(const Document& document) {
  std::string text;
  for (const Section& section : document.sections) {
    for (const std::string& line : text_lines(section)) text += line + "\n";
  }
  return text;
}

}  // namespace meshbed::testbed::document
