// Fat binaries: plain, Zstandard, LZ4; which PTX is taken; what is broken is said with its place.
#include "sim/cuda/image/fat_binary.h"

#include <doctest/doctest.h>
#include <lz4.h>
#include <zstd.h>

#include <cstring>
#include <string>
#include <vector>

namespace fat_binary_test {

using namespace meshbed;
using namespace meshbed::sim::cuda;

namespace {

struct Piece {
  bool is_ptx = true;
  std::uint32_t architecture = 0;
  std::string text;
  std::uint32_t flags = 0x11;
};

template <typename Number>
void put(std::string& bytes, std::size_t offset, Number number) {
  if (bytes.size() < offset + sizeof number) bytes.resize(offset + sizeof number);
  std::memcpy(bytes.data() + offset, &number, sizeof number);
}

std::string packed(const Piece& piece) {
  std::string result(4096, '\0');
  if ((piece.flags & 0x8000U) != 0) {
    result.resize(ZSTD_compress(result.data(), result.size(), piece.text.data(), piece.text.size(), 3));
  } else if ((piece.flags & 0x2000U) != 0) {
    result.resize(static_cast<std::size_t>(LZ4_compress_default(
        piece.text.data(), result.data(), static_cast<int>(piece.text.size()), static_cast<int>(result.size()))));
  } else {
    result = piece.text + '\0';
  }
  return result;
}

std::string container(const std::vector<Piece>& pieces) {
  std::string body;
  for (const Piece& piece : pieces) {
    const bool compressed = (piece.flags & 0xA000U) != 0;
    std::string payload = packed(piece);
    const std::size_t bytes = payload.size();
    payload.resize((bytes + 7) / 8 * 8);
    std::string header(80, '\0');
    put<std::uint16_t>(header, 0, piece.is_ptx ? 1 : 2);
    put<std::uint16_t>(header, 2, 0x101);
    put<std::uint32_t>(header, 4, 80);
    put<std::uint64_t>(header, 8, payload.size());
    put<std::uint32_t>(header, 16, compressed ? static_cast<std::uint32_t>(bytes) : 0);
    put<std::uint32_t>(header, 28, piece.architecture);
    put<std::uint32_t>(header, 40, piece.flags);
    put<std::uint64_t>(header, 56, compressed ? piece.text.size() : 0);
    body += header + payload;
  }
  std::string head(16, '\0');
  put<std::uint32_t>(head, 0, kContainerMagic);
  put<std::uint16_t>(head, 4, 1);
  put<std::uint16_t>(head, 6, 16);
  put<std::uint64_t>(head, 8, body.size());
  return head + body;
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

std::string chosen(const std::vector<Piece>& pieces, std::uint32_t architecture) {
  const std::string image = container(pieces);
  const auto entries = read_fat_binary(bytes_of(image));
  if (!entries) return entries.error().text;
  const auto text = choose_ptx(*entries, architecture);
  return text ? *text : text.error().text;
}

}  // namespace

TEST_CASE("PTX comes out as it went in: plain, Zstandard, LZ4") {
  const std::string text = "// some PTX, long enough to be worth packing: " + std::string(300, 'x');
  CHECK(chosen({{.architecture = 75, .text = text}}, 90) == text);
  CHECK(chosen({{.architecture = 75, .text = text, .flags = 0x8011}}, 90) == text);
  CHECK(chosen({{.architecture = 75, .text = text, .flags = 0x2011}}, 90) == text);
}

TEST_CASE("the highest architecture that is not above the device's is taken") {
  const std::vector<Piece> pieces{{.architecture = 75, .text = "old"},
                                  {.is_ptx = false, .architecture = 90, .text = "machine code"},
                                  {.architecture = 80, .text = "middle"},
                                  {.architecture = 100, .text = "new"}};
  CHECK(chosen(pieces, 90) == "middle");
  CHECK(chosen(pieces, 75) == "old");
  CHECK(chosen(pieces, 121) == "new");
}

TEST_CASE("without PTX it is said what there is, and which option of nvcc brings it") {
  const std::string said =
      chosen({{.is_ptx = false, .architecture = 80, .text = "code"}, {.architecture = 100, .text = "new"}}, 90);
  CHECK(said.find("there is: machine code of sm_80, PTX of sm_100") != said.npos);
  CHECK(said.find("-gencode arch=compute_90,code=compute_90") != said.npos);
}

TEST_CASE("several containers stand one after the other, an empty one first") {
  const std::string image = container({}) + container({{.architecture = 75, .text = "text"}});
  const auto entries = read_fat_binary(bytes_of(image));
  REQUIRE(entries);
  CHECK(entries->size() == 1);
  CHECK(container_bytes(image.data()) == 16);
}

TEST_CASE("a few bytes that are to be a gigabyte of text are refused before any memory is taken for it") {
  for (const std::uint32_t flags : {0x8011U, 0x2011U}) {
    std::string image = container({{.architecture = 75, .text = std::string(3000, 'z'), .flags = flags}});
    put<std::uint64_t>(image, 16 + 56, 1ULL << 30U);
    const auto entries = read_fat_binary(bytes_of(image));
    REQUIRE(entries);
    const auto text = choose_ptx(*entries, 90);
    REQUIRE_FALSE(text);
    CHECK_MESSAGE(text.error().text.find("is to be of 1073741824 bytes, and comes in ") != std::string::npos,
                  text.error().text);
  }
  // As much as there can be comes out: one byte, over and over.
  const std::string long_text(4000, 'z');
  CHECK(chosen({{.architecture = 75, .text = long_text, .flags = 0x8011}}, 90) == long_text);
  CHECK(chosen({{.architecture = 75, .text = long_text, .flags = 0x2011}}, 90) == long_text);
}

TEST_CASE("an image cut anywhere, or with any byte changed, is read or refused, and nothing else") {
  const std::string whole = container({{.architecture = 75, .text = std::string(200, 'y'), .flags = 0x8011}});
  const auto look = [](const std::string& image) {
    const auto entries = read_fat_binary(bytes_of(image));
    if (entries && !entries->empty()) (void)choose_ptx(*entries, 90).has_value();
    return entries.has_value();
  };
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) CHECK_FALSE(look(whole.substr(0, bytes)));
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const char change : {'\0', '\x7f', '\xff'}) {
      std::string image = whole;
      image[at] = change;
      look(image);
    }
  }
}

}  // namespace fat_binary_test
