// A model of a GPU as one word and as a profile: what is written is read back, and what is no model is refused.
#include "models/gpu_profile.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "models/gpu_fields.h"

namespace gpu_profile_test {

using namespace meshbed;
using namespace meshbed::models;

namespace {

/// Every number another one than the H100's.
GpuModel planted() {
  GpuModel model = *find_gpu("H100");
  model.name = "planted";
  for (const GpuField& field : gpu_fields()) {
    if (std::holds_alternative<bool GpuModel::*>(field.place)) continue;
    CHECK(set(model, field, get(model, field) + 1000).has_value());
  }
  model.integrated = true;
  return model;
}

bool are_same(const GpuModel& left, const GpuModel& right) {
  return left.name == right.name && std::all_of(gpu_fields().begin(), gpu_fields().end(), [&](const GpuField& field) {
           return get(left, field) == get(right, field);
         });
}

std::vector<GpuValue> values_of(const GpuModel& model) {
  std::vector<GpuValue> values;
  for (const GpuField& field : gpu_fields()) {
    values.push_back({.field = field.name,
                      .value = profile_value(model, field),
                      .basis = Basis::kMeasured,
                      .source = "a \"test\"\n",
                      .range = {0, 0}});
  }
  return values;
}

Result<GpuModel> read_back(const std::vector<GpuValue>& values, const std::string& name = "planted") {
  const auto profile = Profile::parse(gpu_profile_text(name, "for a test", values), "x.toml");
  if (!profile) return profile.error();
  return gpu_of_profile(*profile);
}

std::string why_not(const std::vector<GpuValue>& values, const std::string& name = "planted") {
  const auto model = read_back(values, name);
  return model ? "" : model.error().text;
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("every model is its word, and no name of one is a word or a file") {
  for (const std::string& name : gpu_names()) {
    CHECK_FALSE(is_gpu_word(name));
    CHECK_FALSE(is_gpu_file(name));
    const GpuModel& model = *find_gpu(name);
    CHECK(is_gpu_word(gpu_word(model)));
    const auto read = parse_gpu_word(gpu_word(model));
    CHECK((read && are_same(*read, model)));
  }
  const GpuModel model = planted();
  const auto read = parse_gpu_word(gpu_word(model));
  CHECK((read && are_same(*read, model)));
}

TEST_CASE("a word that lacks a number, has one too many or one out of bounds is refused") {
  const std::string word = gpu_word(*find_gpu("GB10"));
  const auto why = [](const std::string& text) {
    const auto read = parse_gpu_word(text);
    return read ? "" : read.error().text;
  };
  CHECK(has(why(word.substr(0, word.rfind(';'))), "lacks host_flag_us"));
  CHECK(has(why(word + ";1"), "goes on"));
  CHECK(has(why("x;9;0;0" + word.substr(word.find(";48") + 3)), "sms: 0 is not within"));
  CHECK(has(why("x;"), "lacks compute_major"));
}

TEST_CASE("every model is its profile") {
  for (const std::string& name : gpu_names()) {
    const GpuModel& model = *find_gpu(name);
    const auto read = read_back(values_of(model), name);
    CHECK((read && are_same(*read, model)));
  }
  const auto read = read_back(values_of(planted()));
  CHECK((read && are_same(*read, planted())));
}

TEST_CASE("a GPU is named by its model, by a whole model, or by a profile's file") {
  CHECK(*gpu_word_named("H100") == "H100");
  const std::string word = gpu_word(*find_gpu("GB10"));
  CHECK(*gpu_word_named(word) == word);
  CHECK_FALSE(gpu_word_named("H100;9"));
  CHECK(has(gpu_word_named("/nowhere.toml").error().text, "/nowhere.toml"));
  CHECK(has(gpu_word_named("Voodoo2").error().text, "there is no model of a GPU \"Voodoo2\": set one of GB10"));
}

TEST_CASE("a profile that is no model of a GPU is refused, with parameter and place") {
  std::vector<GpuValue> values = values_of(planted());
  CHECK(why_not(values).empty());
  CHECK(has(why_not(values, "H100, half"), "comma or semicolon"));
  auto fewer = values;
  fewer.pop_back();
  CHECK(has(why_not(fewer), "says nothing of host_flag_us"));
  auto more = values;
  more.push_back({.field = "l3_bytes", .value = 1, .basis = Basis::kMeasured, .source = "x", .range = {0, 0}});
  CHECK(has(why_not(more), "a model of a GPU has no \"l3_bytes\""));
  auto zero = values;
  zero[2].value = 0;
  CHECK(has(why_not(zero), "x.toml:"));
  CHECK(has(why_not(zero), "sms: 0 is not within 1"));
  auto huge = values;
  huge[8].value = 1e30;
  CHECK(has(why_not(huge), "memory_bytes: too large"));
  const auto missing = read_gpu("/no/such/gpu.toml");
  CHECK((!missing && has(missing.error().text, "/no/such/gpu.toml: cannot be read")));
}

TEST_CASE("the H200 is the one that was measured, as the kept profile has it") {
  const auto kept = read_gpu(std::string(MESHBED_SOURCE_DIR) + "/results/gpu/2026-11-26-h200.toml");
  REQUIRE_MESSAGE(kept.has_value(), (kept ? "" : kept.error().text));
  const GpuModel& model = *find_gpu("H200");
  for (const GpuField& field : gpu_fields()) {
    CAPTURE(std::string(field.name));
    CHECK(static_cast<double>(get(model, field)) ==
          doctest::Approx(static_cast<double>(get(*kept, field))).epsilon(0.0001));
  }
}

}  // namespace gpu_profile_test
