// Members of JSON objects, for the readers.

#include <nlohmann/json.hpp>
#include <utility>

#include "testbed/diagnose/read/read.h"

namespace meshbed::testbed::diagnose {
namespace {

const document::Value* find(const document::Value& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

}  // namespace

std::string text_at(const document::Value& object, const char* key) {
  const document::Value* const value = find(object, key);
  return value != nullptr && value->is_string() ? value->get<std::string>() : "";
}

double number_at(const document::Value& object, const char* key, double otherwise) {
  const document::Value* const value = find(object, key);
  return value != nullptr && value->is_number() ? value->get<double>() : otherwise;
}

bool flag_at(const document::Value& object, const char* key) {
  const document::Value* const value = find(object, key);
  return value != nullptr && value->is_boolean() && value->get<bool>();
}

const document::Value& list_at(const document::Value& object, const char* key) {
  static const document::Value none = document::Value::array();
  const document::Value* const value = find(object, key);
  return value != nullptr && value->is_array() ? *value : none;
}

Line whole_file(const std::string& file, std::string text) {
  if (text.size() > kLineShown) text.resize(kLineShown);
  return {.file = file, .number = 0, .text = std::move(text)};
}

}  // namespace meshbed::testbed::diagnose
