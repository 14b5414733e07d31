// Fat binaries: plain, Zstandard, LZ4; which PTX is taken; what is broken is said with its place.
#include "sim/cuda/image/fat_binary.h"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "sim/cuda/image/cubin.h"
#include "sim/cuda/image/image_memory.h"
#include "tests/cuda/fat_container.h"

namespace fat_binary_test {

using namespace meshbed;
using namespace meshbed::sim::cuda;
using namespace meshbed::test;

namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

/// The text for a device of that architecture.
Result<std::string> ptx_for(std::span<const FatEntry> entries, std::uint32_t architecture) {
  const auto entry = choose_entry(entries, architecture);
  return entry ? unpack_ptx(*entry) : Result<std::string>(entry.error());
}

std::string chosen(const std::vector<FatPiece>& pieces, std::uint32_t architecture) {
  const std::string image = fat_container(pieces);
  const auto entries = read_fat_binary(bytes_of(image));
  if (!entries) return entries.error().text;
  const auto text = ptx_for(*entries, architecture);
  return text ? *text : text.error().text;
}

}  // namespace

TEST_CASE("the containers of these tests, and of the program made by hand, are as nvcc 13.0 writes them") {
  // nvcc -arch=compute_90 -Xfatbin=-compress=false: its container of a text with 992 bytes, up to the text.
  const std::vector<unsigned> written{
      0xba55ed50, 0x00100001, 0x00000430, 0,           // magic; version, bytes of this; of what follows
      0x01010001, 0x00000050, 0x000003e0, 0,           // version and kind; bytes of this header; of the payload
      0x00000000, 0x00000040, 0x00090000, 0x0000005a,  // compressed; options; PTX 9.0; sm_90
      0x00000000, 0x00000000, 0x00000011, 0,           // .. flags
      0x00000000, 0x00000000, 0x00000000, 0,           // .. bytes when uncompressed
      0x00000048, 0x00000000, 0x00000000, 0};
  const std::string made = fat_container({{.architecture = 90, .text = std::string(990, 'x')}});
  REQUIRE(made.size() == 16 + 80 + 992);
  std::vector<unsigned> words(written.size());
  std::memcpy(words.data(), made.data(), words.size() * sizeof(unsigned));
  CHECK(words == written);
}

TEST_CASE("PTX comes out as it went in: plain, Zstandard, LZ4") {
  const std::string text = "// some PTX, long enough to be worth packing: " + std::string(300, 'x');
  CHECK(chosen({{.architecture = 75, .text = text}}, 90) == text);
  CHECK(chosen({{.architecture = 75, .text = text, .flags = 0x8011}}, 90) == text);
  CHECK(chosen({{.architecture = 75, .text = text, .flags = 0x2011}}, 90) == text);
}

TEST_CASE("the highest architecture that is not above the device's is taken") {
  const std::vector<FatPiece> pieces{{.architecture = 75, .text = "old"},
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
  const std::string image = fat_container({}) + fat_container({{.architecture = 75, .text = "text"}});
  const auto entries = read_fat_binary(bytes_of(image));
  REQUIRE(entries);
  CHECK(entries->size() == 1);
  const auto first = container_at(image.data());
  REQUIRE(first);
  CHECK(first->size() == 16);
}

TEST_CASE("a few bytes that are to be a gigabyte of text are refused before any memory is taken for it") {
  for (const std::uint32_t flags : {0x8011U, 0x2011U}) {
    std::string image = fat_container({{.architecture = 75, .text = std::string(3000, 'z'), .flags = flags}});
    put_number<std::uint64_t>(image, 16 + 56, 1ULL << 30U);
    const auto entries = read_fat_binary(bytes_of(image));
    REQUIRE(entries);
    const auto text = ptx_for(*entries, 90);
    REQUIRE_FALSE(text);
    CHECK_MESSAGE(text.error().text.find("is to be of 1073741824 bytes, and comes in ") != std::string::npos,
                  text.error().text);
  }
  // As much as there can be comes out: one byte, over and over.
  const std::string long_text(4000, 'z');
  CHECK(chosen({{.architecture = 75, .text = long_text, .flags = 0x8011}}, 90) == long_text);
  CHECK(chosen({{.architecture = 75, .text = long_text, .flags = 0x2011}}, 90) == long_text);
}

TEST_CASE("a container that claims more than can be read is refused, and nothing behind its memory is read") {
  // The image ends where its page does; the page behind it cannot be read.
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* const pages = ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(pages != MAP_FAILED);
  REQUIRE(::mprotect(static_cast<char*>(pages) + page, page, PROT_NONE) == 0);
  std::string image = fat_container({{.architecture = 75, .text = std::string(200, 'y')}});
  char* const at = static_cast<char*>(pages) + page - image.size();
  const auto error_of = [&](std::uint64_t claim) {
    put_number<std::uint64_t>(image, 8, claim);
    std::memcpy(at, image.data(), image.size());
    const auto container = container_at(at);
    return container ? std::string() : container.error().text;
  };
  CHECK(error_of(image.size() - 16) == "");
  CHECK(error_of(image.size() - 15).find("of them can be read") != std::string::npos);
  CHECK(error_of(1ULL << 20U).find("claims 1048592 bytes, and " + std::to_string(image.size()) + " of them") !=
        std::string::npos);
  CHECK(error_of(1ULL << 40U).find("claims 1099511627776 bytes; at most 1073741824 are read") != std::string::npos);
  CHECK(error_of(UINT64_MAX).find("at most 1073741824 are read") != std::string::npos);
  std::memset(at, 'x', image.size());  // a text without an end
  CHECK_FALSE(text_at(at));
  ::munmap(pages, 2 * page);
  CHECK_FALSE(container_at(pages));
}

TEST_CASE("a cubin whose headers point beyond it is refused with the field") {
  std::string image(64, '\0');
  std::memcpy(image.data(), "\177ELF\2\1\1", 7);
  put_number<std::uint16_t>(image, 58, 64);  // e_shentsize
  const auto error_of = [&](std::uint64_t sections_at, std::uint16_t count) {
    put_number<std::uint64_t>(image, 40, sections_at);
    put_number<std::uint16_t>(image, 60, count);
    const auto kernels = kernels_of_cubin(bytes_of(image));
    return kernels ? std::string("read") : kernels.error().text;
  };
  CHECK(error_of(1ULL << 40U, 3) == "cubin: 3 sections at byte 1099511627776 are more than there is");
  CHECK(error_of(UINT64_MAX, 1).find("are more than there is") != std::string::npos);
  CHECK(error_of(0, 65535).find("are more than there is") != std::string::npos);
  CHECK(error_of(0, 0) == "cubin: no section 0 for names");
}

TEST_CASE("a file that is no regular file, or that is not there, is no image") {
  for (const char* path : {"/dev/zero", "/"}) {
    const auto image = read_image_file(path);
    REQUIRE_FALSE(image);
    CHECK(image.error().text == std::string(path) + " is not a regular file");
  }
  CHECK_FALSE(read_image_file("/nowhere/to/be/found"));
}

TEST_CASE("an image cut anywhere, or with any byte changed, is read or refused, and nothing else") {
  const std::string whole = fat_container({{.architecture = 75, .text = std::string(200, 'y'), .flags = 0x8011}});
  const auto look = [](const std::string& image) {
    const auto entries = read_fat_binary(bytes_of(image));
    if (entries && !entries->empty()) (void)ptx_for(*entries, 90).has_value();
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
