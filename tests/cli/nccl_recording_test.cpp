#include <doctest/doctest.h>

#include <filesystem>
#include <stdexcept>

#include "plugin/base/prng.h"
#include "testbed/base/files.h"
#include "testbed/scenario/nccl/recording.h"
#include "testbed/workload/nccl/nccl_replay.h"

namespace nccl_recording_test {

using namespace meshbed;
using namespace meshbed::testbed;

namespace {

const std::string kFolder = std::string(MESHBED_SOURCE_DIR) + "/scenarios/nccl-calls/";
const std::string kMeta = R"({"meta": {"ranks": 2, "gpus_per_node": 1, "net_devices_per_node": 1}})"
                          "\n";

std::string error_of(const std::string& text) {
  try {
    parse_recording(text, "calls.jsonl");
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

bool starts(const std::string& text, const std::string& start) { return text.rfind(start, 0) == 0; }

}  // namespace

TEST_CASE("every recording that is shipped is read whole, and each of its messages has two ends") {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    if (entry.path().extension() != ".jsonl") continue;
    ++files;
    CAPTURE(entry.path().string());
    const Recording recording = read_recording(entry.path());
    CHECK(recording.name == entry.path().stem());
    CHECK(recording.connections() == static_cast<std::uint64_t>(recording.listeners));
    std::uint64_t sent = 0, received = 0, sends = 0, receives = 0;
    for (const RankRecording& rank : recording.ranks) {
      CHECK(rank.main.back().call == NetCall::kFinalize);
      for (const RecordedCall& call : rank.progress) {
        if (call.call == NetCall::kIsend) {
          ++sends;
          sent += call.arrived_bytes;
          CHECK(call.arrived_bytes == call.size_bytes);
        } else if (call.call == NetCall::kIrecv) {
          ++receives;
          received += call.arrived_bytes;
          CHECK(call.arrived_bytes <= call.size_bytes);
        }
      }
    }
    CHECK(sends == receives);
    CHECK(sent == received);
    CHECK(recording.requests() == sends + receives);
  }
  CHECK(files >= 6);
}

TEST_CASE("polls of a pending connect count once, where the first stands; the comm comes with the last") {
  const Recording recording = parse_recording(
      kMeta + R"({"rank": 0, "thread": "service", "call": "connect", "listener": 0, "dev": 0, "result": "pending"})"
              "\n"
              R"({"rank": 0, "thread": "service", "call": "getProperties", "dev": 0})"
              "\n"
              R"({"rank": 0, "thread": "service", "call": "connect", "listener": 0, "dev": 0, "comm": 3})"
              "\n"
              R"({"rank": 1, "thread": "service", "call": "accept", "listener": 0, "dev": 0, "comm": 0})"
              "\n",
      "calls.jsonl");
  REQUIRE(recording.ranks[0].service.size() == 2);
  CHECK(recording.ranks[0].service[0].call == NetCall::kConnect);
  CHECK(recording.ranks[0].service[0].comm == 3);
  CHECK(recording.ranks[0].comms == 4);
}

TEST_CASE("a recording that is wrong is refused with its line") {
  CHECK(starts(error_of(""), "calls.jsonl: empty"));
  CHECK(starts(error_of("{"), "calls.jsonl:1: "));
  CHECK(starts(error_of("{}\n"), "calls.jsonl:1: "));
  CHECK(starts(error_of(R"({"meta": {"ranks": 0}})"), "calls.jsonl:1: no ranks"));
  CHECK(starts(error_of(kMeta + R"({"rank": 2, "thread": "main", "call": "init"})"), "calls.jsonl:2: rank is 2"));
  CHECK(starts(error_of(kMeta + R"({"rank": 0, "thread": "main", "call": "dance"})"),
               "calls.jsonl:2: no call \"dance\""));
  CHECK(starts(error_of(kMeta + R"({"rank": 0, "thread": "attic", "call": "init"})"), "calls.jsonl:2: no thread"));
  CHECK(starts(error_of(kMeta + R"({"rank": 0, "thread": "progress", "call": "done", "req": 1, "sizes": [0]})"),
               "calls.jsonl:2: this request was never started"));
  CHECK(starts(
      error_of(kMeta +
               R"({"rank": 0, "thread": "progress", "call": "isend", "comm": 0, "req": 1, "size": 1, "tag": 0})"),
      "calls.jsonl: 1 request without an end"));
  CHECK(starts(
      error_of(
          kMeta +
          R"({"rank": 0, "thread": "progress", "call": "irecv", "comm": 0, "req": 1, "n": 2, "sizes": [1, 1], "tags": [0, 0]})"),
      "calls.jsonl:2: a grouped receive"));
  CHECK(starts(
      error_of(kMeta + R"({"rank": 0, "thread": "service", "call": "connect", "listener": 0, "dev": 0, "comm": 0})"),
      "calls.jsonl: listener 0 has 1 connects and 0 accepts"));
  CHECK(starts(
      error_of(
          kMeta +
          R"({"rank": 0, "thread": "service", "call": "setNetAttr", "op": -1, "algo": -1, "proto": -1, "send_peers": "1-3", "send_flows": "1..2", "recv_peers": "1..3", "recv_flows": "1..2"})"),
      "calls.jsonl:2: \"1-3\" is not a range"));
}

TEST_CASE("a broken line is said in words: what is missing or ill-typed, and which fields such a line has") {
  const std::string meta_form =
      "; the first line is {\"meta\": {...}} with ranks, gpus_per_node and net_devices_per_node";
  CHECK(error_of("{}\n") == "calls.jsonl:1: field 'meta' is missing" + meta_form);
  CHECK(error_of("[]\n") == "calls.jsonl:1: expects a JSON object with 'meta', got array" + meta_form);
  CHECK(error_of(R"({"meta": {"ranks": "two"}})") ==
        "calls.jsonl:1: field 'ranks' expects a whole number, got string \"two\"" + meta_form);
  CHECK(error_of(R"({"meta": {"ranks": 2}})") == "calls.jsonl:1: field 'gpus_per_node' is missing" + meta_form);
  CHECK(error_of(kMeta + R"({"rank": 0, "thread")") ==
        "calls.jsonl:2: column 21: no JSON; each line is one object in braces");
  CHECK(error_of(kMeta + R"({"rank": 0, "thread": "main"})") ==
        "calls.jsonl:2: field 'call' is missing; a line has rank, thread, call and the call's own fields");
  CHECK(error_of(kMeta + R"({"thread": "main", "call": "init"})") ==
        "calls.jsonl:2: field 'rank' is missing; init has rank, thread, call");
  CHECK(error_of(kMeta + R"({"rank": 1.5, "thread": "main", "call": "init"})") ==
        "calls.jsonl:2: field 'rank' expects a whole number, got number 1.5; init has rank, thread, call");
  CHECK(error_of(kMeta + R"({"rank": 0, "thread": "progress", "call": "isend", "req": 1, "size": 1, "tag": 0})") ==
        "calls.jsonl:2: field 'comm' is missing; isend has rank, thread, call, comm, req, size, tag");
  CHECK(error_of(kMeta + R"({"rank": 0, "thread": "progress", "call": "done", "req": 1})") ==
        "calls.jsonl:2: this request was never started, or is done already");
  CHECK(error_of(kMeta + R"({"rank": 0, "thread": "service", "call": "connect", "listener": 0, "dev": 0})") ==
        "calls.jsonl:2: field 'comm' is missing; connect has rank, thread, call, listener, dev, and either comm or "
        "\"result\": \"pending\"");
  CHECK(error_of(kMeta + R"({"rank": 0, "thread": "service", "call": "regMr", "comm": 0, "mr": 0, "size": -1})") ==
        "calls.jsonl:2: size is -1, not in 0..9223372036854775807");
  CHECK(error_of(kMeta + R"({"rank": 0, "thread": "progress", "call": "irecv", "comm": 0, "req": 1, "n": 1,)" +
                 R"( "sizes": 4, "tags": [0]})") ==
        "calls.jsonl:2: field 'sizes' expects a list of one whole number, got number 4; irecv has rank, thread, call, "
        "comm, req, n, sizes, tags");
}

TEST_CASE("2,000 mutated recordings are read or refused, never worse") {
  const std::string original = read_text_file(kFolder + "triangle-broadcast.jsonl").substr(0, 40'000);
  Prng random(1);
  int refused = 0;
  for (int round = 0; round < 2'000; ++round) {
    // A short beginning, so that a mutation is likely to hit what is read.
    std::string text = original.substr(0, 200 + random.below(2'000));
    for (int change = 0; change < 3; ++change) {
      text[random.below(text.size())] = static_cast<char>(random.below(256));
    }
    const std::string error = error_of(text);
    CHECK_MESSAGE(error.find("json.exception") == std::string::npos, error);
    refused += error.empty() ? 0 : 1;
  }
  CHECK(refused > 1'000);
}

TEST_CASE("a payload is right in every byte, or its first wrong byte is named") {
  for (const std::uint64_t size : {0, 1, 7, 8, 9, 4096, 4099}) {
    std::vector<std::uint8_t> bytes(size + 1);
    generate_payload({1, 3, 17}, bytes.data(), size);
    CHECK(first_wrong_byte({1, 3, 17}, bytes.data(), size) == size);
    for (std::uint64_t at = 0; at < size; at += 5) {
      bytes[at] ^= 1U;
      CHECK(first_wrong_byte({1, 3, 17}, bytes.data(), size) == at);
      bytes[at] ^= 1U;
    }
    if (size < 8) continue;
    CHECK(first_wrong_byte({1, 3, 18}, bytes.data(), size) < size);  // another message
    CHECK(first_wrong_byte({1, 4, 17}, bytes.data(), size) < size);  // another connection
    CHECK(first_wrong_byte({2, 3, 17}, bytes.data(), size) < size);  // another seed
  }
}

}  // namespace nccl_recording_test
