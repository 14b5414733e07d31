#include "testbed/base/json_text.h"

#include <nlohmann/json.hpp>

namespace meshbed::testbed {
namespace {

template <class Json>
std::string text_of_json(const Json& value, int indent, bool ascii_only) {
  return value.dump(indent, ' ', ascii_only, Json::error_handler_t::replace);
}

}  // namespace

std::string json_text(const nlohmann::json& value, int indent, bool ascii_only) {
  return text_of_json(value, indent, ascii_only);
}

std::string json_text(const nlohmann::ordered_json& value, int indent, bool ascii_only) {
  return text_of_json(value, indent, ascii_only);
}

}  // namespace meshbed::testbed
