#pragma once
// Text in XML, for names from other sources in pictures (SVG).

#include <string>

namespace meshbed::testbed {

/// As an element's text or an attribute's value; characters that XML 1.0 cannot hold are dropped.
std::string xml_text(const std::string& text);

}  // namespace meshbed::testbed
