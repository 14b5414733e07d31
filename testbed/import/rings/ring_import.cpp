#include "testbed/import/rings/ring_import.h"

#include <stdexcept>

namespace meshbed::testbed::rings {

void refuse(const std::string& path, const std::string& what) { throw std::runtime_error(path + ": " + what); }

}  // namespace meshbed::testbed::rings
