# cmake -DFROM=FOLDER -DTO=FILE.cpp -P embed_bundle.cmake: report.js and report.css of a folder as functions of C++.
foreach(name js css)
  # Compilers take string literals of 64 KiB at least; the files are below that (tests/page/bundle.sh).
  file(READ ${FROM}/report.${name} text_${name})
endforeach()
file(CONFIGURE OUTPUT ${TO} @ONLY CONTENT [==[
#include "testbed/page/bundle.h"

namespace meshbed::testbed::page {

std::string_view bundled_script() { return R"bundle(@text_js@)bundle"; }

std::string_view bundled_style() { return R"bundle(@text_css@)bundle"; }

}  // namespace meshbed::testbed::page
]==])
