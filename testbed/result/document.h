#pragma once
// Document: what a command reports, as values. It has sections; a section has fields, tables and lines. testbed/render
// makes text, JSON, CSV and JUnit XML of a document, and a JSON Schema of its shape.
//
// A shape is a document without values: every field and column with its key, unit and meaning. Values, threads: any
// thread may read a document; only one may change it.

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace meshbed::testbed::document {

using Value = nlohmann::ordered_json;

enum class ValueKind : std::uint8_t {
  kText,
  kInteger,
  kNumber,
  kBool,
  kTexts,    // a list of texts
  kObject,   // with `parts`
  kObjects,  // a list of objects with `parts`
  kAny,      // of another program, or with keys that depend on the run
};

/// A named value, or a column of a table.
struct Field {
  std::string key;  // in JSON and CSV; empty: a column of text alone
  ValueKind kind = ValueKind::kText;
  std::string unit;  // "ns", "B", "GB/s"; empty: it has none
  std::string meaning;
  bool may_be_null = false;
  bool may_be_absent = false;
  bool unknown_if_negative = false;  // text shows "-"
  bool varies = false;               // differs between two runs of the same scenario, as CPU time does
  std::vector<Field> parts{};        // of objects

  // As a column of a text table; without a title it is not part of one.
  std::string title{};
  int width = 0;
  bool to_the_left = false;
  int decimals = -1;  // -1: as it is
  double scale = 1;   // text = value * scale
  std::string before = " ";
  std::string after{};     // behind a value, as a unit; `width` does not count it
  bool with_sign = false;  // of a number, also "+"

  Field or_null() && { return may_be_null = true, std::move(*this); }
  Field or_absent() && { return may_be_absent = true, std::move(*this); }
  Field unknown_below_zero() && { return unknown_if_negative = true, std::move(*this); }
  Field varying() && { return varies = true, std::move(*this); }
  Field of(std::vector<Field> fields) && { return parts = std::move(fields), std::move(*this); }
  /// Right-aligned under `heading`, `between` it and the column before.
  Field shown(std::string heading, int columns, std::string between = " ") && {
    title = std::move(heading), width = columns, before = std::move(between);
    return std::move(*this);
  }
  Field left() && { return to_the_left = true, std::move(*this); }
  Field rounded(int digits, double factor = 1) && { return decimals = digits, scale = factor, std::move(*this); }
  Field followed_by(std::string unit_text) && { return after = std::move(unit_text), std::move(*this); }
  Field with_plus() && { return with_sign = true, std::move(*this); }
};

inline Field text(std::string key, std::string meaning) {
  return {.key = std::move(key), .kind = ValueKind::kText, .unit = "", .meaning = std::move(meaning)};
}
inline Field integer(std::string key, std::string unit, std::string meaning) {
  return {.key = std::move(key), .kind = ValueKind::kInteger, .unit = std::move(unit), .meaning = std::move(meaning)};
}
inline Field number(std::string key, std::string unit, std::string meaning) {
  return {.key = std::move(key), .kind = ValueKind::kNumber, .unit = std::move(unit), .meaning = std::move(meaning)};
}
inline Field flag(std::string key, std::string meaning) {
  return {.key = std::move(key), .kind = ValueKind::kBool, .unit = "", .meaning = std::move(meaning)};
}
inline Field texts(std::string key, std::string meaning) {
  return {.key = std::move(key), .kind = ValueKind::kTexts, .unit = "", .meaning = std::move(meaning)};
}
inline Field object(std::string key, std::string meaning, std::vector<Field> parts) {
  return Field{.key = std::move(key), .kind = ValueKind::kObject, .unit = "", .meaning = std::move(meaning)}.of(
      std::move(parts));
}
inline Field objects(std::string key, std::string meaning, std::vector<Field> parts) {
  return Field{.key = std::move(key), .kind = ValueKind::kObjects, .unit = "", .meaning = std::move(meaning)}.of(
      std::move(parts));
}
inline Field any(std::string key, std::string meaning) {
  return {.key = std::move(key), .kind = ValueKind::kAny, .unit = "", .meaning = std::move(meaning)};
}
/// A column that JSON and CSV do not have: what it shows follows from the others.
inline Field in_text(std::string heading, int columns, std::string between = " ") {
  return text("", "").shown(std::move(heading), columns, std::move(between));
}

struct Row {
  std::vector<Value> cells;  // one a column
  std::string note{};        // behind the row, in text alone
};

/// What rows are, beside values.
enum class TableRole : std::uint8_t {
  kValues,
  kChecks,  // columns "name", "ok", "detail": a renderer for test reports makes a test case of each row
};

struct Table {
  std::string key;  // empty: a table of text alone
  std::string meaning;
  std::vector<Field> columns;
  bool may_be_absent = false;  // left out while it has no rows
  TableRole role = TableRole::kValues;
  std::vector<Row> rows{};
  std::string heading_before{};         // in text, instead of `before` of the first column
  std::string all_in = "summary.json";  // in text: what has the rows that are left out

  /// Throws std::logic_error unless there is one cell a column.
  void add(std::vector<Value> cells, std::string note = "");
  /// The values of `object` by the columns' keys, null for those that it has not; the cells of columns of text alone
  /// are `texts`, in order. Throws std::logic_error for a key without a column.
  void add_object(const Value& object, const std::vector<std::string>& texts = {}, std::string note = "");
};

/// A line of text, or a table of the section at this place in the text.
struct Block {
  std::string line{};
  int table = -1;            // index in Section::tables; -1: it is a line
  std::size_t rows_max = 0;  // of the table; those after it are counted in one line
  bool has_heading = true;   // of the table
  int fields_width = 0;      // of the keys of the section's fields, a line each; 0: it is not of fields
};

/// How a section without values appears in JSON.
enum class Empty : std::uint8_t { kKept, kNull, kAbsent };

struct Section {
  std::string key{};    // of the object that its values are in; empty: the document itself
  std::string title{};  // for pages
  Empty empty = Empty::kKept;
  std::vector<std::pair<Field, Value>> fields{};
  std::vector<Table> tables{};
  std::vector<Block> blocks{};
  bool has_values = true;  // false: it appears as `empty` says

  Section& with(std::vector<Field> more);
  Section& with(Table table);
  /// Throws std::logic_error for a key that the section does not have.
  void set(std::string_view key, Value value);
  /// Every value of `object`, as set().
  void set_all(const Value& object);
  Table& table(std::string_view key);

  template <typename... Arguments>
  void line(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    blocks.push_back({.line = fmt::format(format, std::forward<Arguments>(arguments)...)});
  }
  void blank() { blocks.push_back({}); }
  /// Each line of `text`, which ends in a line feed.
  void lines(std::string_view text);
  /// The table here, with its heading; of more than `rows_max` rows the first ones and how many are left out, all of
  /// which JSON has.
  void show(std::string_view key, std::size_t rows_max = SIZE_MAX);
  /// The table's rows here, without its heading.
  void show_rows(std::string_view key, std::size_t rows_max = SIZE_MAX);
  /// Keys and values of all fields here, a line each; keys have `width` columns.
  void show_fields(int width) { blocks.push_back({.line = "", .fields_width = width}); }
};

struct Document {
  std::string title;  // "run"
  std::vector<Section> sections{};
  std::vector<std::string> first_keys{};  // come first in JSON, in this order; the others follow by section

  /// nullptr where no section has such a table.
  const Table* find_table(std::string_view key) const;
};

/// `value` where `known`, else null.
template <typename T>
Value known_value(bool known, T&& value) {
  return known ? Value(std::forward<T>(value)) : Value(nullptr);
}

}  // namespace meshbed::testbed::document
