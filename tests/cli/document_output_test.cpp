// DocumentOutput: a document that grows is printed once, as text while it grows or as JSON at its end.
#include "cli/common/document_output.h"

#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <utility>

#include "testbed/base/files.h"
#include "tests/support/command.h"

namespace document_output_test {

using namespace meshbed::testbed;
using namespace meshbed::test;

namespace {

document::Document report() {
  document::Section section{.title = "Rows"};
  section.with(document::Table{
      .key = "rows", .meaning = "numbers", .columns = {document::integer("n", "", "a number").shown("n", 3, "")}});
  section.show("rows");
  return {.title = "rows", .sections = {std::move(section)}};
}

}  // namespace

TEST_CASE("each line of a growing document is printed at once and one time") {
  document::Document growing = report();
  DocumentOutput output;
  std::ostringstream out;
  output.show(growing, out);
  CHECK(out.str() == "  n\n");
  growing.sections.front().table("rows").add({7});
  output.show(growing, out);
  output.show(growing, out);
  CHECK(out.str() == "  n\n  7\n");
  growing.sections.front().line("all");
  output.finish(growing, out);
  CHECK(out.str() == "  n\n  7\nall\n");
}

TEST_CASE("with --json only the end is printed; --keep has the same") {
  document::Document growing = report();
  growing.sections.front().table("rows").add({7});
  const std::string file = scratch_folder("document-output") + "/kept.json";
  DocumentOutput output{.json = true, .keep = file, .indent = kOneLine};
  std::ostringstream out;
  output.show(growing, out);
  CHECK(out.str().empty());
  output.finish(growing, out);
  CHECK(out.str() == "{\"rows\":[{\"n\":7}]}\n");
  CHECK(read_text_file(file) == out.str());
}

}  // namespace document_output_test
