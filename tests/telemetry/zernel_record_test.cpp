// The bytes of zernel's records, and what is said of files that hold none.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <stdexcept>

#include "testbed/base/files.h"
#include "testbed/result/zernel/stream.h"
#include "tests/support/command.h"

namespace zernel_record_test {

using namespace meshbed::testbed;
using namespace meshbed::testbed::zernel;
using meshbed::test::scratch_folder;

namespace {

std::string hex(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

/// What reading it throws; empty: nothing.
std::string refusal(const std::string& path, std::optional<Stream> stream = std::nullopt) {
  Streams streams;
  try {
    read_streams(streams, path, stream);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

Streams one_of_each() {
  Streams streams;
  streams.nccl.push_back({.pid = 1000,
                          .op = static_cast<std::uint8_t>(NcclOp::kAllReduce),
                          .size_bytes = std::uint64_t{100} << 20U,
                          .start_ns = 1'000'000'000,
                          .duration_ns = 13'770'000,
                          .rank = 2,
                          .num_ranks = 4});
  streams.gpu_memory.push_back({1, 2, 3, 4, 5, 6});
  streams.cuda.push_back({.pid = 1, .kernel_hash = 2, .launch_ns = 3, .return_ns = 4, .latency_ns = 5});
  streams.dataload.push_back({.pid = 1, .tid = 2, .read_bytes = 3, .latency_ns = 4, .io_type = 1});
  streams.dist_sync.push_back({1, 2, 3, 4});
  return streams;
}

}  // namespace

TEST_CASE("a collective's record is the golden one, byte for byte") {
  CHECK(hex(bytes_of(one_of_each(), Stream::kNccl)) ==
        "e8030000"
        "00000000"
        "0000400600000000"
        "00ca9a3b00000000"
        "101dd20000000000"
        "02000000"
        "04000000");
}

TEST_CASE("the other records are little-endian at their offsets, with zeros between") {
  const Streams streams = one_of_each();
  CHECK(hex(bytes_of(streams, Stream::kGpuMemory)) ==
        "0100000002000000030000000000000004000000000000000500000000000000"
        "0600000000000000");
  CHECK(hex(bytes_of(streams, Stream::kCuda)) ==
        "0100000000000000020000000000000003000000000000000400000000000000"
        "0500000000000000");
  CHECK(hex(bytes_of(streams, Stream::kDataload)) ==
        "0100000002000000030000000000000004000000000000000100000000000000");
  CHECK(hex(bytes_of(streams, Stream::kDistSync)) == "010000000200000003000000000000000400000000000000");
}

TEST_CASE("what is written to a folder is read back, and empty streams are empty files") {
  const std::string folder = scratch_folder("zernel_streams") + "/out";
  write_streams(one_of_each(), folder);
  Streams read;
  read_streams(read, folder, std::nullopt);
  for (int number = 0; number < kStreams; ++number) {
    const auto stream = static_cast<Stream>(number);
    CHECK(bytes_of(read, stream) == bytes_of(one_of_each(), stream));
  }
  write_streams({}, folder);
  for (const std::string& name : stream_names()) CHECK(std::filesystem::file_size(folder + "/" + name + ".zev") == 0);
}

TEST_CASE("a name that ends in .zev gets the collectives alone") {
  const std::string file = scratch_folder("zernel_file") + "/mine.zev";
  write_streams(one_of_each(), file);
  CHECK(read_text_file(file) == bytes_of(one_of_each(), Stream::kNccl));
  CHECK(has(refusal(file), "mine.zev: the name does not say which stream it holds; add --stream, one of: nccl, "));
  Streams read;
  read_streams(read, file, Stream::kNccl);
  REQUIRE(read.nccl.size() == 1);
  CHECK(read.nccl[0].num_ranks == 4);
}

TEST_CASE("a file cut anywhere within a record is refused with the record and the byte") {
  const std::string folder = scratch_folder("zernel_cut");
  Streams streams = one_of_each();
  streams.nccl.push_back(streams.nccl[0]);
  const std::string whole = bytes_of(streams, Stream::kNccl);
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    write_text_file(folder + "/nccl.zev", whole.substr(0, size));
    const std::string said = refusal(folder + "/nccl.zev");
    CHECK(said.empty() == (size % sizeof(NcclEvent) == 0));
    if (size != 47) continue;
    CHECK(said == folder +
                      "/nccl.zev: 47 bytes are not a whole number of nccl records of 40 bytes: record 1, from byte "
                      "40 on, has only 7; it was cut short, or holds another stream (--stream says which)");
  }
}

TEST_CASE("what is not there is refused by its name") {
  const std::string folder = scratch_folder("zernel_nothing");
  CHECK(has(refusal(folder), folder + ": none of nccl.zev, gpu_mem.zev, cuda.zev, dataload.zev, dist_sync.zev is in"));
  CHECK(has(refusal(folder + "/nccl.zev"), folder + "/nccl.zev: no such file or folder"));
  write_streams({}, folder);
  CHECK(has(refusal(folder, Stream::kCuda), "--stream says what one file holds"));
}

}  // namespace zernel_record_test
