#pragma once
// Columns of a CSV file, by their names.

#include <algorithm>
#include <cstddef>
#include <sstream>
#include <string>
#include <vector>

#include "testbed/base/files.h"

namespace meshbed::test {

/// Each row's cells of the columns `wanted`, in that order; empty where the file has no such column.
inline std::vector<std::vector<std::string>> columns_of(const std::string& file,
                                                        const std::vector<std::string>& wanted) {
  const auto cells_of = [](const std::string& line) {
    std::istringstream text(line);
    std::vector<std::string> cells;
    for (std::string cell; std::getline(text, cell, ',');) cells.push_back(cell);
    return cells;
  };
  std::istringstream text(testbed::read_text_file(file));
  std::string line;
  std::getline(text, line);
  const std::vector<std::string> names = cells_of(line);
  std::vector<std::vector<std::string>> rows;
  while (std::getline(text, line)) {
    const std::vector<std::string> cells = cells_of(line);
    std::vector<std::string>& row = rows.emplace_back();
    for (const std::string& name : wanted) {
      const auto at = static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
      row.push_back(at < cells.size() ? cells[at] : "");
    }
  }
  return rows;
}

}  // namespace meshbed::test
