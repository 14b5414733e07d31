#pragma once
// Units in scenario files: text such as "100Gb/s", "500ns", "64MiB" to integers and back.
//
// Decimal fractions are exact ("1.5us" is 1 500 000 ps); a value that its unit cannot hold is an error.

#include <cstdint>
#include <string>

#include "plugin/base/counted.h"
#include "plugin/base/result.h"
#include "plugin/base/units.h"

namespace meshbed::testbed {

/// bits per second: "100Gb/s", "25 Gbit/s", "10Gbps"; prefixes k M G T are powers of 1000. "GB/s" is refused: too
/// easily mistyped.
Result<std::uint64_t> parse_rate_bps(const std::string& text);
/// "1%", "0.5 %": the number before the sign.
Result<double> parse_percent(const std::string& text);
/// "1us", "500ns", "3ms", "2s", "80ps".
Result<Picoseconds> parse_time_ps(const std::string& text);
/// Bytes as nccl-tests reads them: K M G T are powers of 1024 ("64M", "64MiB", "1K", "512"). "64MB" is refused.
Result<std::uint64_t> parse_size_bytes(const std::string& text);

std::string rate_text(std::uint64_t rate_bps);    // "100 Gb/s"
std::string size_text(std::uint64_t size_bytes);  // "1 TiB", "12.5 GiB"
std::string time_text(Picoseconds time_ps);       // "1 us"
std::string duration_text(Picoseconds time_ps);   // to three digits behind the point: "7.162 ms"

}  // namespace meshbed::testbed
