#include "testbed/fidelity/exchange_file.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "testbed/base/files.h"
#include "testbed/base/units.h"

namespace meshbed::testbed {
namespace {

constexpr std::size_t kMostExchangeRanks = 2048;

std::string without_spaces(const std::string& text) {
  constexpr const char* kSpaces = " \t\r";
  const std::size_t first = text.find_first_not_of(kSpaces);
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(kSpaces) - first + 1);
}

std::uint64_t cell_bytes(const std::string& text, const std::string& place) {
  constexpr std::uint64_t kMostBytes = 1'000'000'000'000'000;  // sums of a row or column fit
  if (text.empty()) throw std::runtime_error(place + ": the cell is empty; write 0 where a rank sends nothing");
  const Result<std::uint64_t> size =
      text.front() < '0' || text.front() > '9'
          ? Result<std::uint64_t>(Error{.code = ErrorCode::kInvalidArgument, .text = "it begins with no digit"})
          : parse_size_bytes(text);
  if (!size) {
    throw std::runtime_error(
        fmt::format("{}: \"{}\" is not a size ({}); write bytes as 4096, 4K or 4MiB", place, text, size.error().text));
  }
  if (*size > kMostBytes) throw std::runtime_error(fmt::format("{}: {} is more than 10^15 bytes", place, text));
  return *size;
}

}  // namespace

models::ExchangeMatrix parse_exchange(const std::string& text, const std::string& path) {
  std::vector<std::vector<std::uint64_t>> rows;
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // of UTF-8, as spreadsheets write it
  std::istringstream lines(text.starts_with(kByteOrderMark) ? text.substr(kByteOrderMark.size()) : text);
  int number = 0, first_line = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const std::string content = without_spaces(line);
    if (content.empty() || content.front() == '#') continue;
    if (rows.empty()) first_line = number;
    std::vector<std::uint64_t> row;
    std::size_t begin = 0;
    do {
      const std::size_t end = content.find(',', begin);
      const std::string place = fmt::format("{}:{}, column {}", path, number, row.size() + 1);
      row.push_back(cell_bytes(without_spaces(content.substr(begin, end - begin)), place));
      if (row.size() > kMostExchangeRanks) {
        throw std::runtime_error(fmt::format("{}: a matrix has at most {} ranks", place, kMostExchangeRanks));
      }
      begin = end == std::string::npos ? end : end + 1;
    } while (begin != std::string::npos);
    if (!rows.empty() && row.size() != rows.front().size()) {
      throw std::runtime_error(fmt::format("{}:{}: {} columns, and line {} has {}; each line needs one for each rank",
                                           path, number, row.size(), first_line, rows.front().size()));
    }
    rows.push_back(std::move(row));
    if (rows.size() > rows.front().size()) {
      throw std::runtime_error(
          fmt::format("{}:{}: more lines than the {} columns; a matrix has a line and a column "
                      "for each rank",
                      path, number, rows.front().size()));
    }
  }
  if (rows.empty()) {
    throw std::runtime_error(path + ": no line of a matrix; write a line for each sending rank, as 0,4K,4K,4K");
  }
  if (rows.size() < rows.front().size()) {
    throw std::runtime_error(
        fmt::format("{}:{}: {} lines, and {} columns; a matrix has a line and a column for each "
                    "rank",
                    path, number, rows.size(), rows.front().size()));
  }
  if (rows.size() < 2) throw std::runtime_error(path + ": one rank; an exchange has two or more");
  models::ExchangeMatrix matrix{.ranks = static_cast<int>(rows.size()), .bytes = {}};
  for (const std::vector<std::uint64_t>& row : rows) matrix.bytes.insert(matrix.bytes.end(), row.begin(), row.end());
  return matrix;
}

models::ExchangeMatrix read_exchange(const std::string& path) { return parse_exchange(read_text_file(path), path); }

}  // namespace meshbed::testbed
