#include "cli/common/xml_text.h"

namespace meshbed::cli {

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

}  // namespace meshbed::cli
