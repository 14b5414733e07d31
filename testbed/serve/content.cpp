#include "testbed/serve/content.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace meshbed::testbed::serve {

Reply plain_reply(unsigned status, std::string text) {
  return {.status = status, .type = "text/plain; charset=utf-8", .body = std::move(text) + "\n"};
}

Reply Content::reply(std::string_view path) {
  try {
    if (path == "/") return page();
    if (path == "/metrics") return {.type = kMetricsType, .body = metrics()};
    if (path == "/json") return {.type = "application/json", .body = json()};
    return other(path);
  } catch (const std::exception& error) {
    return plain_reply(503, error.what());
  }
}

std::string Content::snapshot() {
  try {
    return json();
  } catch (const std::exception&) {
    return "";  // the next one may succeed; /json has the cause
  }
}

}  // namespace meshbed::testbed::serve
