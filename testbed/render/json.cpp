// A document as JSON.

#include <nlohmann/json.hpp>

#include "testbed/render/render.h"

namespace meshbed::testbed::document {
namespace {

void add_values(Value& object, const Field& field, const Value& value) {
  if (field.key.empty() || (field.may_be_absent && value.is_null())) return;
  object[field.key] = value;
}

void add_values(Value& object, const Section& section) {
  for (const auto& [field, value] : section.fields) add_values(object, field, value);
  for (const Table& table : section.tables) {
    if (table.key.empty() || (table.may_be_absent && table.rows.empty())) continue;
    object[table.key] = json_of(table);
  }
}

}  // namespace

nlohmann::ordered_json json_of(const Table& table) {
  Value list = Value::array();
  for (const Row& row : table.rows) {
    Value object = Value::object();
    for (std::size_t index = 0; index < table.columns.size(); ++index) {
      add_values(object, table.columns[index], row.cells[index]);
    }
    list.push_back(std::move(object));
  }
  return list;
}

nlohmann::ordered_json json_of(const Section& section) {
  Value object = Value::object();
  add_values(object, section);
  return object;
}

nlohmann::ordered_json json_of(const Document& document) {
  Value json = Value::object();
  for (const std::string& key : document.first_keys) json[key] = nullptr;
  for (const Section& section : document.sections) {
    if (!section.has_values) {
      if (section.empty == Empty::kNull) json[section.key] = nullptr;
    } else if (section.key.empty()) {
      add_values(json, section);
    } else {
      json[section.key] = json_of(section);
    }
  }
  return json;
}

}  // namespace meshbed::testbed::document
