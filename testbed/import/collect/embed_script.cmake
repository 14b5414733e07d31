# cmake -DFROM=collect.sh -DTO=FILE.cpp -P embed_script.cmake: the script as a function of C++ (collect_script.h).
file(READ ${FROM} text)
# The text has no semicolons or brackets that CMake would take apart here: file(READ) into a quoted argument keeps all.
file(CONFIGURE OUTPUT ${TO} @ONLY CONTENT [==[
#include "testbed/import/collect/collect_script.h"

namespace meshbed::testbed::hosts {

std::string_view collect_script() {
  return R"MESHBED(@text@)MESHBED";
}

}  // namespace meshbed::testbed::hosts
]==])
