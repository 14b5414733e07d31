#pragma once

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <string>

namespace meshbed {

/// A C++ symbol as its source writes it; any other as it is.
inline std::string demangled(const std::string& symbol) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status),
                                                    &std::free);
  return status == 0 && name != nullptr ? name.get() : symbol;
}

}  // namespace meshbed
