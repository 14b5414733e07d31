#pragma once
// A Result in a test: there, or the test has failed with its error's text.
#include <doctest/doctest.h>

#include <utility>

#include "plugin/base/result.h"

namespace meshbed::test {

inline void well(const Result<void>& result) { CHECK_MESSAGE(result.has_value(), (result ? "" : result.error().text)); }

template <typename T>
T taken(Result<T> result) {
  CHECK_MESSAGE(result.has_value(), (result ? "" : result.error().text));
  return std::move(result).value();
}

}  // namespace meshbed::test
