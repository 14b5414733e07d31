#include "testbed/result/document.h"

#include <algorithm>
#include <stdexcept>

namespace meshbed::testbed::document {

void Table::add(std::vector<Value> cells, std::string note) {
  if (cells.size() != columns.size()) {
    throw std::logic_error(fmt::format("table {} has {} columns, not {}", key, columns.size(), cells.size()));
  }
  rows.push_back({std::move(cells), std::move(note)});
}

void Table::add_object(const Value& object, const std::vector<std::string>& texts, std::string note) {
  std::vector<Value> cells;
  std::size_t text = 0, found = 0;
  for (const Field& column : columns) {
    const bool is_text = column.key.empty();
    if (!is_text && object.contains(column.key)) ++found;
    cells.push_back(is_text ? Value(texts.at(text++)) : object.value(column.key, Value()));
  }
  if (found != object.size()) throw std::logic_error(fmt::format("table {} lacks a column of {}", key, object.dump()));
  add(std::move(cells), std::move(note));
}

Section& Section::with(std::vector<Field> more) {
  for (Field& field : more) fields.emplace_back(std::move(field), nullptr);
  return *this;
}

Section& Section::with(Table table) {
  tables.push_back(std::move(table));
  return *this;
}

void Section::set(std::string_view key, Value value) {
  const auto field = std::find_if(fields.begin(), fields.end(), [&](const auto& one) { return one.first.key == key; });
  if (field == fields.end()) throw std::logic_error(fmt::format("section {} has no field {}", title, key));
  field->second = std::move(value);
}

void Section::set_all(const Value& object) {
  for (const auto& [key, value] : object.items()) set(key, value);
}

Table& Section::table(std::string_view key) {
  const auto found = std::find_if(tables.begin(), tables.end(), [&](const Table& one) { return one.key == key; });
  if (found == tables.end()) throw std::logic_error(fmt::format("section {} has no table {}", title, key));
  return *found;
}

void Section::show(std::string_view key, std::size_t rows_max) {
  const auto index = static_cast<int>(&table(key) - tables.data());
  blocks.push_back({.line = "", .table = index, .rows_max = rows_max});
}

void Section::show_rows(std::string_view key, std::size_t rows_max) {
  show(key, rows_max);
  blocks.back().has_heading = false;
}

void Section::lines(std::string_view text) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    line("{}", text.substr(begin, end - begin));
    begin = end + 1;
  }
}

const Table* Document::find_table(std::string_view key) const {
  for (const Section& section : sections) {
    for (const Table& table : section.tables) {
      if (table.key == key) return &table;
    }
  }
  return nullptr;
}

}  // namespace meshbed::testbed::document
