// A document's checks as JUnit XML (https://github.com/testmoapp/junitxml describes the parts that CI systems read).

#include <cstddef>
#include <string>

#include "testbed/base/xml_text.h"
#include "testbed/render/render.h"

namespace meshbed::testbed::document {

std::string junit_of(const Document& document, const std::string& suite) {
  std::string cases;
  std::size_t count = 0, failures = 0;
  for (const Section& section : document.sections) {
    for (const Table& table : section.tables) {
      if (table.role != TableRole::kChecks) continue;
      for (const Row& row : table.rows) {
        const std::string name = xml_text(row.cells[0].get<std::string>());
        const std::string detail = xml_text(row.cells[2].get<std::string>());
        ++count;
        cases += fmt::format("  <testcase classname=\"{}.{}\" name=\"{}\"", xml_text(suite), table.key, name);
        if (row.cells[1].get<bool>()) {
          cases += "/>\n";
        } else {
          ++failures;
          cases += fmt::format(">\n    <failure message=\"{}\"/>\n  </testcase>\n", detail);
        }
      }
    }
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"{}\" tests=\"{}\" "
      "failures=\"{}\">\n{}</testsuite>\n",
      xml_text(suite), count, failures, cases);
}

}  // namespace meshbed::testbed::document
