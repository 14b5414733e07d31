#include "testbed/base/xml_text.h"

namespace meshbed::testbed {

std::string xml_text(const std::string& text) {
  std::string out;
  for (const char letter : text) {
    switch (letter) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        if (static_cast<unsigned char>(letter) >= 0x20) out += letter;
    }
  }
  return out;
}

}  // namespace meshbed::testbed
