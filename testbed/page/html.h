#pragma once
// Html: the common parts of all sections of a page. Pure functions; any thread.
//
// Text from other sources passes through xml_text() only here; parameters named `markup` are used unchanged.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "testbed/base/xml_text.h"
#include "testbed/result/document.h"

namespace meshbed::testbed::page {

using document::Value;

/// How much of long lists a page shows, so that it stays below its largest size.
struct Budget {
  std::size_t messages = 100'000;  // and ring slots, of a timeline
  std::size_t rows = 4'000;        // of a table
  Budget part_of(std::size_t parts) const { return {.messages = messages / parts, .rows = rows / parts}; }
};

struct TableLook {
  std::string caption;
  std::vector<std::string_view> hidden = {};  // columns
  std::size_t rows_max = 200;
  bool sorted_and_filtered = false;     // by the reader
  std::string source = "summary.json";  // has what is left out
};

/// Empty for a table without rows. Columns whose cells are all empty, and those that vary between runs, are left out.
std::string table_html(const document::Table& table, const TableLook& look);
/// A value for people: times in us, rates in Gb/s, groups of three digits.
std::string cell_text(const document::Field& field, const Value& value);
/// The unit that cell_text() counts in.
std::string cell_unit(const document::Field& field);

/// "<section id=... aria-labelledby=...><h3>title</h3>content</section>"; empty without content.
std::string section_html(const std::string& id, const std::string& title, const std::string& content);
/// A paragraph of plain text.
std::string note_html(const std::string& text);
/// JSON for a script of the page: "</script>" cannot end it.
std::string data_html(const std::string& id, const std::string& json);

std::string grouped(const std::string& digits);  // "1 234 567"
std::string short_time(double time_ns);          // "7.162 ms"

}  // namespace meshbed::testbed::page
