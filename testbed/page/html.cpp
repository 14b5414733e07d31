#include "testbed/page/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>

#include "testbed/base/json_text.h"
#include "testbed/base/units.h"

namespace meshbed::testbed::page {
namespace {

using document::Field;
using document::Row;
using document::Table;
using document::ValueKind;

constexpr std::size_t kWideMost = 44;           // letters; a longer text is broken into lines
constexpr const char* kNarrowSpace = "\u202f";  // between groups of digits; does not break

/// "1234.500" without what says nothing.
std::string trimmed(std::string number) {
  if (number.find('.') == std::string::npos) return number;
  number.erase(number.find_last_not_of('0') + 1);
  if (number.back() == '.') number.pop_back();
  return number;
}

std::string number_text(double value) {
  const double size = std::abs(value);
  const int decimals = size >= 1000 ? 1 : size >= 10 ? 2 : size >= 0.01 || size == 0 ? 3 : 6;
  return grouped(trimmed(fmt::format("{:.{}f}", value, decimals)));
}

double scale_of(const Field& field) {
  if (field.unit == "ns") return 1e-3;
  if (field.unit == "ps") return 1e-6;
  if (field.unit == "bit/s") return 1e-9;
  return 1;
}

/// "launch_us (value 4.791, unit us), ...": what has no columns of its own.
std::string nested_text(const Value& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return fmt::format("{:g}", value.get<double>());
  if (!value.is_structured()) return json_text(value);
  std::string text;
  for (const auto& [key, part] : value.items()) {
    const std::string inner = part.is_structured() ? "(" + nested_text(part) + ")" : nested_text(part);
    text += (text.empty() ? "" : ", ") + (value.is_object() ? key + " " : "") + inner;
  }
  return text;
}

std::string list_text(const Value& list) {
  constexpr std::size_t kMost = 6;
  std::string text;
  for (std::size_t index = 0; index < std::min(list.size(), kMost); ++index) {
    text += (index == 0 ? "" : ", ") + nested_text(list[index]);
  }
  if (list.size() > kMost) text += fmt::format(", and {} more", list.size() - kMost);
  return text;
}

bool is_numeric(const Field& field) { return field.kind == ValueKind::kInteger || field.kind == ValueKind::kNumber; }

bool says_nothing(const Value& value) {
  return value.is_null() || (value.is_string() && value.get_ref<const std::string&>().empty()) ||
         (value.is_array() && value.empty());
}

std::vector<std::size_t> shown_columns(const Table& table, const TableLook& look) {
  std::vector<std::size_t> shown;
  for (std::size_t column = 0; column < table.columns.size(); ++column) {
    const Field& field = table.columns[column];
    const bool is_hidden =
        field.varies || std::find(look.hidden.begin(), look.hidden.end(), field.key) != look.hidden.end();
    const bool is_empty = std::all_of(table.rows.begin(), table.rows.end(),
                                      [&](const Row& row) { return says_nothing(row.cells[column]); });
    if (!is_hidden && !is_empty) shown.push_back(column);
  }
  return shown;
}

std::string heading(const Field& field) {
  std::string name = field.key;
  // The unit stands behind the name.
  for (const std::string_view ending : {"_ns", "_ps", "_us", "_bps", "_GBps"}) {
    if (name.size() > ending.size() && name.compare(name.size() - ending.size(), ending.size(), ending) == 0 &&
        !field.unit.empty()) {
      name.resize(name.size() - ending.size());
      break;
    }
  }
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

std::string head_cell(const Field& field, bool sorts) {
  const std::string unit = cell_unit(field);
  const std::string name = xml_text(heading(field)) + (unit.empty() ? "" : " <small>" + xml_text(unit) + "</small>");
  return fmt::format("<th scope=\"col\"{} title=\"{}\">{}</th>", is_numeric(field) ? " class=\"n\"" : "",
                     xml_text(field.meaning), sorts ? "<span data-sort>" + name + "</span>" : name);
}

std::string body_cell(const Field& field, const Value& value, bool is_first) {
  const char* tag = is_first ? "th scope=\"row\"" : "td";
  std::string classes;
  if (is_numeric(field)) classes = "n";
  if (field.key == "ok") classes = value == true ? "yes" : "no";
  if (field.key == "status" && value.is_string()) classes = value == "ok" ? "yes" : "no";
  const std::string text = cell_text(field, value);
  if (text.size() > kWideMost) classes = "w";
  return fmt::format("<{}{}>{}</{}>", tag, classes.empty() ? "" : " class=\"" + classes + "\"", xml_text(text),
                     is_first ? "th" : "td");
}

}  // namespace

std::string grouped(const std::string& digits) {
  const std::size_t begin = digits.find_first_of("0123456789");
  const std::size_t end = std::min(digits.find('.'), digits.size());
  if (begin == std::string::npos || end - begin < 5) return digits;
  std::string text = digits.substr(0, begin);
  for (std::size_t at = begin; at < end; ++at) {
    if (at > begin && (end - at) % 3 == 0) text += kNarrowSpace;
    text += digits[at];
  }
  return text + digits.substr(end);
}

std::string short_time(double time_ns) {
  constexpr std::array<const char*, 4> kUnits{"ns", "µs", "ms", "s"};
  std::size_t unit = 0;
  for (; time_ns >= 1000 && unit + 1 < kUnits.size(); ++unit) time_ns /= 1000;
  return trimmed(fmt::format("{:.{}f}", time_ns, time_ns >= 100 ? 1 : time_ns >= 10 ? 2 : 3)) + " " + kUnits[unit];
}

std::string cell_unit(const Field& field) {
  if (field.unit == "ns" || field.unit == "ps" || field.unit == "us") return "µs";
  if (field.unit == "bit/s") return "Gb/s";
  return field.unit;
}

std::string cell_text(const Field& field, const Value& value) {
  if (value.is_null()) return "–";
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number()) {
    if (field.unknown_if_negative && value.get<double>() < 0) return "–";
    const double scale = scale_of(field);
    if (scale != 1) return number_text(value.get<double>() * scale);
    if (value.is_number_integer()) return grouped(json_text(value));
    return number_text(value.get<double>());
  }
  if (value.is_array()) return list_text(value);
  return nested_text(value);
}

std::string table_html(const Table& table, const TableLook& look) {
  if (table.rows.empty()) return "";
  const std::vector<std::size_t> columns = shown_columns(table, look);
  if (columns.empty()) return "";
  const std::size_t rows = std::min(table.rows.size(), look.rows_max);
  std::string caption = look.caption;
  if (rows < table.rows.size()) {
    caption += fmt::format(" The first {} of {} rows; all are in {}.", grouped(std::to_string(rows)),
                           grouped(std::to_string(table.rows.size())), look.source);
  }
  std::string html = fmt::format(
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" "
      "aria-label=\"{}\"><table{}><caption>{}</caption><thead><tr>",
      xml_text(look.caption), look.sorted_and_filtered ? " data-table" : "", xml_text(caption));
  for (const std::size_t column : columns) html += head_cell(table.columns[column], look.sorted_and_filtered);
  html += "</tr></thead>\n<tbody>";
  for (std::size_t index = 0; index < rows; ++index) {
    html += "<tr>";
    for (const std::size_t column : columns) {
      html += body_cell(table.columns[column], table.rows[index].cells[column], column == columns.front());
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string section_html(const std::string& id, const std::string& title, const std::string& content) {
  if (content.empty()) return "";
  return fmt::format("<section id=\"{0}\" aria-labelledby=\"{0}-h\"><h3 id=\"{0}-h\">{1}</h3>\n{2}</section>\n", id,
                     xml_text(title), content);
}

std::string note_html(const std::string& text) { return "<p class=\"note\">" + xml_text(text) + "</p>\n"; }

std::string data_html(const std::string& id, const std::string& json) {
  std::string html = fmt::format("<script type=\"application/json\" id=\"{}\">", id);
  for (const char letter : json) {
    if (letter == '<') {
      html += "\\u003c";
    } else {
      html += letter;
    }
  }
  return html + "</script>\n";
}

}  // namespace meshbed::testbed::page
