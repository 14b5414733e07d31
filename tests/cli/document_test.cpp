// Documents: what is declared once becomes text, JSON, CSV, JUnit XML and a JSON Schema.
#include "testbed/result/document.h"

#include <doctest/doctest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "testbed/render/render.h"
#include "testbed/result/tables.h"

namespace document_test {

using namespace meshbed::testbed;
using namespace meshbed::testbed::document;

namespace {

Section paths_shape() {
  Section section{.key = "paths", .title = "Paths", .empty = Empty::kNull};
  section.with({integer("count", "", "of the paths"), number("time_ns", "ns", "of all").or_null(),
                text("note", "of the user").or_absent()});
  section.with(Table{.key = "rows",
                     .meaning = "the paths",
                     .columns = {text("name", "of the path").shown("path", 8, "").left(),
                                 integer("rank", "", "-1: not known").unknown_below_zero().shown("rank", 5),
                                 number("time_ns", "ns", "of one").shown("time (us)", 10, " | ").rounded(2, 1e-3),
                                 integer("hidden", "", "not in text").or_null()}});
  return section;
}

Section filled_paths() {
  Section section = paths_shape();
  section.set("count", 2);
  section.table("rows").add({"a \"b\", c", 3, 12345.6, 7}, "first");
  section.table("rows").add({"d", -1, 1.0, nullptr});
  section.line("{} paths", 2);
  section.show("rows");
  return section;
}

}  // namespace

TEST_CASE("a section is text with aligned columns, '-' for what is not known, and a note behind its row") {
  CHECK(text_of({.title = "t", .sections = {filled_paths()}}) ==
        "2 paths\n"
        "path      rank |  time (us)\n"
        "a \"b\", c     3 |      12.35  first\n"
        "d            - |       0.00\n");
}

TEST_CASE("of more rows than a text shows the rest is counted") {
  Section section = filled_paths();
  section.blocks.clear();
  section.show("rows", 1);
  CHECK(text_lines(section).back() == "  ... and 1 more, all in summary.json");
}

TEST_CASE("JSON has each key once, null for what is not known, and leaves out what may be absent") {
  const auto json = json_of(Document{.title = "t", .sections = {filled_paths()}});
  CHECK(json.dump() ==
        R"({"paths":{"count":2,"time_ns":null,"rows":[{"name":"a \"b\", c","rank":3,"time_ns":12345.6,"hidden":7},)"
        R"({"name":"d","rank":-1,"time_ns":1.0,"hidden":null}]}})");
  Section two = filled_paths();
  two.key = "first";
  CHECK(json_of(Document{.title = "t", .sections = {filled_paths(), two}, .first_keys = {"first"}}).begin().key() ==
        "first");
  Section without = paths_shape();
  without.has_values = false;
  CHECK(json_of(Document{.title = "t", .sections = {without}}).dump() == R"({"paths":null})");
  without.empty = Empty::kAbsent;
  CHECK(json_of(Document{.title = "t", .sections = {without}}).dump() == "{}");
}

TEST_CASE("columns and tables without a key are in the text alone; a value may have a sign and a unit behind it") {
  Section section{.title = "Points"};
  section.with(
      Table{.key = "points",
            .meaning = "measured and predicted",
            .columns = {text("name", "of the point").shown("name", 6, "  ").left(), in_text("by", 4),
                        number("error", "", "relative").shown("error", 6).rounded(1, 100).with_plus().followed_by("%")},
            .heading_before = "# "});
  section.with(Table{.key = "", .meaning = "", .columns = {in_text("aside", 5, "")}});
  section.table("points").add({"a", "ring", 0.125});
  section.table("points").add_object({{"error", -0.25}, {"name", "b"}}, {"tree"});
  section.table("").add({"x"});
  section.show("points");
  section.show_rows("");
  CHECK(text_of({.title = "t", .sections = {section}}) ==
        "# name     by   error\n"
        "  a      ring  +12.5%\n"
        "  b      tree  -25.0%\n"
        "    x\n");
  CHECK(json_of(section).dump() == R"({"points":[{"name":"a","error":0.125},{"name":"b","error":-0.25}]})");
  CHECK(csv_of(section.table("points")) == "name,error\na,0.125\nb,-0.25\n");
  CHECK(schema_of({.title = "t", .sections = {section}}).at("required").dump() == R"(["points"])");
  CHECK_THROWS_AS(section.table("points").add_object({{"eror", 1}}, {"tree"}), std::logic_error);
}

TEST_CASE("fields can be lines, and a text of several lines too") {
  Section section = paths_shape();
  section.set("count", 2);
  section.show_fields(8);
  section.lines("one\n\ntwo\n");
  CHECK(text_lines(section) == std::vector<std::string>{"count   2", "time_ns -", "note    -", "one", "", "two"});
}

TEST_CASE("CSV quotes what has commas, quotes and line ends (RFC 4180)") {
  Section section = filled_paths();
  section.table("rows").add({"two\nlines", 0, 0, nullptr});
  CHECK(csv_of(section.table("rows")) ==
        "name,rank,time_ns,hidden\n\"a \"\"b\"\", c\",3,12345.6,7\nd,-1,1.0,\n\"two\nlines\",0,0,\n");
}

TEST_CASE("JUnit XML has a test case for each check, and the detail of one that does not hold") {
  Section section{.title = "Checks"};
  section.with(check_table_shape("proofs", "of the run"));
  section.table("proofs").add({"bytes in = bytes out", true, "8 = 8"});
  section.table("proofs").add({"time <= \"bound\"", false, "3 > 2 & more"});
  CHECK(junit_of({.title = "run", .sections = {section}}, "pair") ==
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<testsuite name=\"pair\" tests=\"2\" failures=\"1\">\n"
        "  <testcase classname=\"pair.proofs\" name=\"bytes in = bytes out\"/>\n"
        "  <testcase classname=\"pair.proofs\" name=\"time &lt;= &quot;bound&quot;\">\n"
        "    <failure message=\"3 &gt; 2 &amp; more\"/>\n"
        "  </testcase>\n"
        "</testsuite>\n");
}

TEST_CASE("the schema has types, units, what is required, and refuses other keys") {
  const auto schema = schema_of({.title = "t", .sections = {paths_shape()}});
  const auto& paths = schema.at("properties").at("paths");
  CHECK(schema.at("required").dump() == R"(["paths"])");
  CHECK(paths.at("type").dump() == R"(["object","null"])");
  CHECK(paths.at("required").dump() == R"(["count","time_ns","rows"])");
  CHECK(paths.at("properties").at("time_ns").dump() == R"({"type":["number","null"],"description":"of all [ns]"})");
  CHECK(paths.at("additionalProperties") == false);
  CHECK(paths.at("properties").at("rows").at("items").at("required").size() == 4);
}

TEST_CASE("a value without a declared place is a defect of the program") {
  Section section = paths_shape();
  CHECK_THROWS_AS(section.set("cuont", 1), std::logic_error);
  CHECK_THROWS_AS(section.show("row"), std::logic_error);
  CHECK_THROWS_AS(section.table("rows").add({"one cell"}), std::logic_error);
}

}  // namespace document_test
