#include "tests/support/layout.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

namespace meshbed::test {
namespace {

struct DocumentedField {
  long offset = 0;                   // negative: from the end
  std::optional<std::size_t> bytes;  // nullopt: "*"
  std::string name;
};

/// nullopt: the line documents no field.
std::optional<DocumentedField> field_of(const std::string& line) {
  std::istringstream words(line);
  std::string slashes, size;
  DocumentedField field;
  if (!(words >> slashes >> field.offset >> size >> field.name) || slashes != "//") return std::nullopt;
  if (size != "*") field.bytes = std::stoul(size);
  return field;
}

std::vector<DocumentedField> documented_fields(const std::string& header, const std::string& name) {
  std::ifstream file(std::string(MESHBED_SOURCE_DIR) + "/" + header);
  std::vector<DocumentedField> fields;
  std::string line;
  const std::string title = "// Layout of " + name;
  while (std::getline(file, line) && line.rfind(title, 0) != 0) continue;
  std::getline(file, line);  // the names of the columns
  while (std::getline(file, line)) {
    const std::optional<DocumentedField> field = field_of(line);
    if (!field) break;
    fields.push_back(*field);
  }
  return fields;
}

std::string differs(const DocumentedField& field, const std::string& what) { return field.name + ": " + what; }

}  // namespace

FieldBytes big_endian(std::string name, std::uint64_t value, std::size_t size_bytes) {
  FieldBytes field{.name = std::move(name), .bytes = std::vector<std::uint8_t>(size_bytes)};
  for (std::size_t byte = 0; byte < size_bytes; ++byte) {
    field.bytes[size_bytes - 1 - byte] = static_cast<std::uint8_t>(value >> (8 * byte));
  }
  return field;
}

FieldBytes little_endian(std::string name, std::uint64_t value, std::size_t size_bytes) {
  FieldBytes field = big_endian(std::move(name), value, size_bytes);
  std::reverse(field.bytes.begin(), field.bytes.end());
  return field;
}

FieldBytes text_field(std::string name, std::string_view text, std::size_t size_bytes) {
  FieldBytes field{.name = std::move(name), .bytes = {text.begin(), text.end()}};
  if (size_bytes > 0) field.bytes.resize(size_bytes);
  return field;
}

std::string layout_problem(const std::string& header, const std::string& name, std::span<const std::uint8_t> bytes,
                           const std::vector<FieldBytes>& expected, std::size_t first_byte) {
  const std::vector<DocumentedField> fields = documented_fields(header, name);
  if (fields.empty()) return header + " documents no layout of " + name;
  std::size_t at = first_byte, next_expected = 0;
  bool may_be_padded = false;  // after a field of size "*"
  for (const DocumentedField& field : fields) {
    const std::size_t offset = field.offset < 0 ? bytes.size() - static_cast<std::size_t>(-field.offset)
                                                : static_cast<std::size_t>(field.offset);
    if (offset < at || offset > bytes.size() || (offset != at && !may_be_padded)) {
      return differs(field, "begins at byte " + std::to_string(offset) + ", but the field before it ends at " +
                                std::to_string(at));
    }
    const auto is_zero = [](std::uint8_t byte) { return byte == 0; };
    if (!std::all_of(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                     bytes.begin() + static_cast<std::ptrdiff_t>(offset), is_zero)) {
      return differs(field, "the bytes before it are not zero");
    }
    std::vector<std::uint8_t> wanted(field.bytes.value_or(0));
    if (field.name != "zero") {
      if (next_expected == expected.size()) return differs(field, "is not expected");
      if (expected[next_expected].name != field.name) {
        return differs(field, "is documented, but expected is " + expected[next_expected].name);
      }
      wanted = expected[next_expected++].bytes;
      if (field.bytes && *field.bytes != wanted.size()) {
        return differs(field, "is documented with " + std::to_string(*field.bytes) + " bytes, but expected are " +
                                  std::to_string(wanted.size()));
      }
    }
    if (offset + wanted.size() > bytes.size()) return differs(field, "passes the end");
    if (!std::equal(wanted.begin(), wanted.end(), bytes.begin() + static_cast<std::ptrdiff_t>(offset))) {
      return differs(field, "other bytes at offset " + std::to_string(offset));
    }
    at = offset + wanted.size();
    may_be_padded = !field.bytes;
  }
  if (next_expected != expected.size()) return expected[next_expected].name + ": is not documented";
  const bool padded = may_be_padded && std::all_of(bytes.begin() + static_cast<std::ptrdiff_t>(at), bytes.end(),
                                                   [](std::uint8_t byte) { return byte == 0; });
  if (at != bytes.size() && !padded) return "the last documented field ends at byte " + std::to_string(at);
  return "";
}

}  // namespace meshbed::test
