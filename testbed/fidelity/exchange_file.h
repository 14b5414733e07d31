#pragma once
// A file of a point-to-point matrix: CSV, a line for each sending rank and a column for each receiving one, in bytes
// ("4096", "4K", "4MiB"). Lines that are empty or begin with # are left out.

#include <string>

#include "models/time/exchange_time.h"

namespace meshbed::testbed {

/// Throws std::runtime_error with file, line, column and cause where it cannot be read, where a cell is no size, and
/// where it is not square or has fewer than two ranks.
models::ExchangeMatrix read_exchange(const std::string& path);
/// The same from text; `path` stands in errors.
models::ExchangeMatrix parse_exchange(const std::string& text, const std::string& path);

}  // namespace meshbed::testbed
