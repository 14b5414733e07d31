#pragma once
// Section<T>: the declarative table that reads one kind of TOML table into a T, refuses unknown keys, applies the
// defaults and provides the documentation. fields.cpp holds the tables.

#include <toml++/toml.h>

#include <string>
#include <vector>

#include "testbed/base/diagnostics.h"
#include "testbed/scenario/value.h"

namespace meshbed::testbed {

template <typename T>
struct Field {
  const char* key;
  const char* type;     // as the dictionary names it
  const char* initial;  // TOML text that is read where the key is missing; "(...)" is said in words, not read; "" none
  const char* meaning;
  void (*read)(const Value& value, T& out);
};

template <typename T>
struct Section {
  const char* heading;  // "[topology]", "[[node.nic]]"
  const char* meaning;
  std::vector<Field<T>> fields;
  std::string kinds = {};  // Markdown, a table: what a field `kind` may be
};

/// The table for T; defined in fields.cpp for every spec.
template <typename T>
const Section<T>& section_of();

/// A file's text as TOML; throws ScenarioError, with the place, for what is none, is empty or has an overlong key.
toml::table parse_toml(const std::string& text, const std::string& file);
/// Reads the TOML text of a default.
toml::table parse_default(const char* initial);
/// Reports `key` as unknown in the section `heading`.
void refuse_key(const toml::key& key, const toml::node& node, const char* heading,
                const std::vector<std::string>& accepted, Diagnostics& diagnostics);

template <typename T>
void read_section(const toml::table& table, T& out, Diagnostics& diagnostics) {
  const Section<T>& section = section_of<T>();
  out.place = table.source();
  for (const auto& [key, node] : table) {
    bool known = false;
    for (const auto& field : section.fields) known = known || key.str() == field.key;
    if (known) continue;
    std::vector<std::string> accepted;
    for (const auto& field : section.fields) accepted.emplace_back(field.key);
    refuse_key(key, node, section.heading, accepted, diagnostics);
  }
  for (const auto& field : section.fields) {
    if (const toml::node* node = table.get(field.key)) {
      out.given[field.key] = node->source();
      field.read(Value(*node, field.key, diagnostics), out);
    } else if (field.initial[0] != '\0' && field.initial[0] != '(') {
      const toml::table initial = parse_default(field.initial);
      field.read(Value(*initial.get("value"), field.key, diagnostics), out);
    }
  }
}

template <typename T>
void Value::table(T& out) const {
  if (const toml::table* table = node_.as_table()) {
    read_section(*table, out, diagnostics_);
  } else {
    refuse_type("a table");
  }
}

template <typename T>
void Value::tables(std::vector<T>& out) const {
  const toml::array* array = node_.as_array();
  if (array == nullptr) return refuse_type("a list of tables");
  for (const auto& element : *array) {
    Value(element, name_, diagnostics_).table(out.emplace_back());
  }
}

}  // namespace meshbed::testbed
