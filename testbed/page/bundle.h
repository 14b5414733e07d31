#pragma once
// The page's script and style sheet, as embed_bundle.cmake takes them from testbed/page/bundle.

#include <string_view>

namespace meshbed::testbed::page {

std::string_view bundled_script();
std::string_view bundled_style();

}  // namespace meshbed::testbed::page
