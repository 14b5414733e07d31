// The JSON Schema of a document.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "testbed/render/render.h"

namespace meshbed::testbed::document {
namespace {

Value object_schema(const std::vector<Field>& fields);

Value list_of(Value items) { return {{"type", "array"}, {"items", std::move(items)}}; }

Value value_schema(const Field& field) {
  switch (field.kind) {
    case ValueKind::kText:
      return {{"type", "string"}};
    case ValueKind::kInteger:
      return {{"type", "integer"}};
    case ValueKind::kNumber:
      return {{"type", "number"}};
    case ValueKind::kBool:
      return {{"type", "boolean"}};
    case ValueKind::kTexts:
      return list_of({{"type", "string"}});
    case ValueKind::kObject:
      return object_schema(field.parts);
    case ValueKind::kObjects:
      return list_of(object_schema(field.parts));
    case ValueKind::kAny:
      break;
  }
  return Value::object();
}

Value schema_of(const Field& field) {
  Value schema = value_schema(field);
  if (field.may_be_null && schema.contains("type")) schema["type"] = {schema["type"], "null"};
  schema["description"] = field.unit.empty() ? field.meaning : fmt::format("{} [{}]", field.meaning, field.unit);
  return schema;
}

void add_schema(Value& schema, const Field& field) {
  if (field.key.empty()) return;
  schema["properties"][field.key] = schema_of(field);
  if (!field.may_be_absent) schema["required"].push_back(field.key);
}

Value empty_schema() {
  return {{"type", "object"},
          {"properties", Value::object()},
          {"required", Value::array()},
          {"additionalProperties", false}};
}

Value object_schema(const std::vector<Field>& fields) {
  Value schema = empty_schema();
  for (const Field& field : fields) add_schema(schema, field);
  return schema;
}

void add_schema(Value& schema, const Section& section) {
  for (const auto& [field, value] : section.fields) add_schema(schema, field);
  for (const Table& table : section.tables) {
    if (table.key.empty()) continue;
    Value list = list_of(object_schema(table.columns));
    list["description"] = table.meaning;
    schema["properties"][table.key] = std::move(list);
    if (!table.may_be_absent) schema["required"].push_back(table.key);
  }
}

}  // namespace

nlohmann::ordered_json schema_of(const Document& shape) {
  Value schema{{"$schema", "http://json-schema.org/draft-07/schema#"}, {"title", shape.title}};
  schema.update(empty_schema());
  for (const Section& section : shape.sections) {
    if (section.key.empty()) {
      add_schema(schema, section);
      continue;
    }
    Value object = empty_schema();
    add_schema(object, section);
    if (section.empty == Empty::kNull) object["type"] = {"object", "null"};
    object["description"] = section.title;
    schema["properties"][section.key] = std::move(object);
    if (section.empty != Empty::kAbsent) schema["required"].push_back(section.key);
  }
  return schema;
}

}  // namespace meshbed::testbed::document
