#include "models/gpu_profile.h"

#include <array>
#include <charconv>
#include <cmath>

#include "models/gpu_fields.h"

namespace meshbed::models {
namespace {

constexpr std::string_view kGpuFileEnd = ".toml";

Error bad_gpu(std::string text) {
  return {.code = ErrorCode::kInvalidArgument, .scope = Scope::kJob, .text = std::move(text), .os_errno = 0};
}

/// The shortest text that reads back as this number.
std::string shortest(double value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

/// As TOML has it: a device's name and a reason may hold anything.
std::string toml_text(const std::string& text) {
  constexpr unsigned char kFirstPlain = 0x20, kDelete = 0x7f;
  std::string quoted = "\"";
  for (const char each : text) {
    const auto byte = static_cast<unsigned char>(each);
    if (each == '"' || each == '\\') quoted += '\\';
    quoted += byte < kFirstPlain || byte == kDelete ? ' ' : each;
  }
  return quoted + "\"";
}

}  // namespace

bool is_gpu_file(const std::string& name) {
  return name.size() > kGpuFileEnd.size() &&
         name.compare(name.size() - kGpuFileEnd.size(), kGpuFileEnd.size(), kGpuFileEnd) == 0;
}

Result<GpuModel> gpu_of_profile(const Profile& profile) {
  GpuModel model;
  model.name = profile.name();
  if (model.name.find_first_of(",;") != std::string::npos) {
    return bad_gpu("name: \"" + model.name + "\" has a comma or semicolon, which a GPU's name may not");
  }
  for (const auto& [name, parameter] : profile.parameters()) {
    if (find_gpu_field(name) == nullptr) {
      return bad_gpu(parameter.place + ": a model of a GPU has no \"" + name +
                     "\"; models/gpu_fields.cpp has its names");
    }
  }
  for (const GpuField& field : gpu_fields()) {
    const auto found = profile.parameters().find(field.name);
    if (found == profile.parameters().end()) {
      return bad_gpu("the profile " + model.name + " says nothing of " + field.name +
                     ", which a model of a GPU needs; meshbed calibrate gpu writes all");
    }
    const std::string place = found->second.place + ": ";
    const auto value = profile.value(field.name, field.unit);
    if (!value) return bad_gpu(place + value.error().text);
    constexpr double kMost = 9e18;
    const double scaled = std::round(*value * field.scale);
    if (!(std::abs(scaled) < kMost)) return bad_gpu(place + field.name + ": too large a number");
    if (auto done = set(model, field, static_cast<std::int64_t>(scaled)); !done) {
      return bad_gpu(place + done.error().text);
    }
  }
  return model;
}

Result<GpuModel> read_gpu(const std::string& path) {
  const auto profile = Profile::read(path);
  if (!profile) return profile.error();
  auto model = gpu_of_profile(*profile);
  if (model || model.error().text.find(path) == 0) return model;
  return bad_gpu(path + ": " + model.error().text);
}

Result<std::string> gpu_word_named(const std::string& name) {
  if (is_gpu_file(name)) {
    const auto model = read_gpu(name);
    if (!model) return model.error();
    return gpu_word(*model);
  }
  if (is_gpu_word(name)) {
    const auto model = parse_gpu_word(name);
    if (!model) return model.error();
    return name;
  }
  if (find_gpu(name) != nullptr) return name;
  std::string names;
  for (const std::string& each : gpu_names()) names += (names.empty() ? "" : ", ") + each;
  return bad_gpu("there is no model of a GPU \"" + name + "\": set one of " + names + ", or a profile's file");
}

Result<std::string> gpu_words_named(const std::vector<std::string>& names) {
  std::string words;
  for (const std::string& name : names) {
    const auto word = gpu_word_named(name);
    if (!word) return word.error();
    words += (words.empty() ? "" : ",") + *word;
  }
  return words;
}

std::string gpu_profile_text(const std::string& name, const std::string& description,
                             const std::vector<GpuValue>& values) {
  std::string text = "name = " + toml_text(name) + "\ndescription = " + toml_text(description) + "\n";
  for (const GpuValue& each : values) {
    const GpuField* field = find_gpu_field(each.field);
    text += "\n[" + each.field + "]\nvalue = " + shortest(each.value) + "\n";
    if (field != nullptr) text += "unit = " + toml_text(field->unit) + "\n";
    text += std::string("basis = ") + toml_text(name_of(each.basis)) + "\nsource = " + toml_text(each.source) + "\n";
    if (each.range.first < each.range.second) {
      text += "range = [" + shortest(each.range.first) + ", " + shortest(each.range.second) + "]\n";
    }
  }
  return text;
}

}  // namespace meshbed::models
