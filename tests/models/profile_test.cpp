#include "models/profile.h"

#include <doctest/doctest.h>

#include <string>

namespace profile_test {

using namespace meshbed;
using namespace meshbed::models;

namespace {

const std::string kHead = "name = \"pair\"\n";
const std::string kPost = "[post_send]\nvalue = 250\nunit = \"ns\"\nbasis = \"measured\"\nsource = \"perftest\"\n";

std::string error_of(const std::string& text) {
  const auto profile = Profile::parse(text, "pair.toml");
  return profile ? "" : profile.error().text;
}

}  // namespace

TEST_CASE("a profile says each value, its unit and where it comes from") {
  const auto profile =
      Profile::parse(kHead + "description = \"two nodes\"\n" + kPost +
                         "[launch]\nvalue = 2.5\nunit = \"us\"\nbasis = \"guess\"\nsource = \"no launch was timed\"\n"
                         "range = [1, 5]\n",
                     "pair.toml");
  REQUIRE(profile);
  CHECK(profile->name() == "pair");
  CHECK(profile->description() == "two nodes");
  REQUIRE(profile->parameters().size() == 2);
  const Parameter& post = profile->parameters().at("post_send");
  CHECK(post.source == "perftest");
  CHECK(std::string(name_of(post.basis)) == "measured");
  CHECK(*profile->value("post_send", "ns") == 250);
  CHECK(*profile->time_ps("post_send") == 250'000);
  CHECK(*profile->time_ps("launch") == 2'500'000);
  CHECK(profile->parameters().at("launch").range == std::pair(1.0, 5.0));
  CHECK(profile->value("post_send", "us").error().text == "the profile pair has post_send in ns, not in us");
  CHECK(profile->value("poll", "ns").error().text == "the profile pair says nothing of poll");
}

TEST_CASE("a value without provenance is refused, and so is a guess without a range: the error names place and fix") {
  CHECK(error_of(kPost) == "pair.toml: name is missing");
  CHECK(error_of(kHead + "post_send = 250\n") ==
        "pair.toml:2: post_send: a parameter is a table of its own: [post_send] with value, unit, basis, source");
  CHECK(error_of(kHead + "[x]\nvalue = 1\nunit = \"ns\"\nbasis = \"measured\"\n") ==
        "pair.toml:2: x: source is missing: where does the number come from?");
  CHECK(error_of(kHead + "[x]\nvalue = 1\nbasis = \"measured\"\nsource = \"s\"\n") ==
        "pair.toml:2: x: unit is missing (\"ns\", \"Gb/s\"; \"1\" of a plain number)");
  CHECK(error_of(kHead + "[x]\nvalue = 1\nunit = \"ns\"\nsource = \"s\"\n") ==
        "pair.toml:2: x: basis has to be one of: measured, data sheet, constant, other classes, calibrated, guess");
  CHECK(error_of(kHead + "[x]\nvalue = 1\nunit = \"ns\"\nbasis = \"guess\"\nsource = \"s\"\n") ==
        "pair.toml:2: x: a guess needs a range, as in range = [1, 4]");
  CHECK(error_of(kHead + "[x]\nvalue = 9\nunit = \"ns\"\nbasis = \"guess\"\nsource = \"s\"\nrange = [1, 4]\n") ==
        "pair.toml:2: x: value lies outside its own range");
  CHECK(error_of(kHead + "[x]\nvalu = 9\n") ==
        "pair.toml:2: x: there is no \"valu\"; accepted: value, unit, basis, source, range");
  CHECK(error_of(kHead + "[x]\nvalue = \"9\"\n") == "pair.toml:2: x: value has to be a number");
  CHECK(error_of("name = [").rfind("pair.toml:1: ", 0) == 0);
}

}  // namespace profile_test
