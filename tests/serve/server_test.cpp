// The server against clients of all kinds: right codes, bounds, and a results folder that changes meanwhile.
#include "testbed/serve/server.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>
#include <vector>

#include "testbed/base/files.h"
#include "testbed/result/zernel/metrics.h"
#include "tests/serve/serve_client.h"
#include "tests/support/command.h"
#include "tests/support/heap.h"

namespace server_test {

using namespace meshbed::testbed;
using namespace meshbed::testbed::serve;
using namespace meshbed::test;
using nlohmann::json;

namespace {

namespace fs = std::filesystem;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Serves on two free ports, on a thread of its own.
class RunningServer {
 public:
  explicit RunningServer(Content& content, const Limits& limits = {})
      : server_(Address{.host = "127.0.0.1", .port = 0}, content, limits), thread_([this] { server_.run(); }) {}
  ~RunningServer() {
    server_.stop();
    thread_.join();
  }
  std::uint16_t port() const { return server_.port(); }
  std::uint16_t websocket_port() const { return server_.websocket_port(); }
  std::size_t clients() const { return server_.clients(); }

 private:
  Server server_;
  std::thread thread_;
};

/// Replies with what a test says.
class FixedContent : public Content {
 public:
  std::string description() const override { return "fixed"; }
  std::string body = "# HELP a b\n";
  bool fails = false;

 private:
  std::string metrics() override {
    if (fails) throw std::runtime_error("results are being written");
    return body;
  }
  std::string json() override { return R"({"last_update_ms":7})"; }
  Reply page() override { return {.type = "text/html; charset=utf-8", .body = "<p>page</p>", .refresh_s = 10}; }
  Reply other(std::string_view) override { return plain_reply(404, "there is no such address"); }
};

zernel::Streams some_records() {
  zernel::Streams streams;
  for (std::uint32_t call = 0; call < 4; ++call) {
    streams.nccl.push_back({.pid = 1000,
                            .op = 0,
                            .size_bytes = 1024,
                            .start_ns = 1'000'000'000 + call,
                            .duration_ns = 2'000'000 + call * 1'000'000,
                            .rank = call % 2,
                            .num_ranks = 2});
  }
  streams.gpu_memory.push_back({1000, 0, 4096, 0, 4096, 2'000'000'000});
  streams.cuda.push_back({.pid = 1000, .kernel_hash = 1, .launch_ns = 1, .return_ns = 142'001, .latency_ns = 142'000});
  streams.dataload.push_back({.pid = 1000, .tid = 1, .read_bytes = 8192, .latency_ns = 8'000'000, .io_type = 0});
  streams.dist_sync.push_back({1000, 1, 5000, 3'000'000'000});
  return streams;
}

/// A run's results with records; a real run once, copied for each test.
std::string results_of_run(const std::string& name) {
  const std::string folder = scratch_folder(name);
  const CommandResult run =
      run_command_line(fmt::format("{} run {} --results '{}' --no-expect --set workload.bytes=64K >/dev/null",
                                   meshbed_program(), scenario_file("pair"), folder));
  REQUIRE(run.status == 0);
  fs::create_directory(folder + "/pair/sim/zernel");
  zernel::write_streams(some_records(), folder + "/pair/sim/zernel");
  return folder + "/pair/sim";
}

}  // namespace

TEST_CASE("serve: each address has its content, and zernel's names and values are exact") {
  const std::string folder = results_of_run("serve-content");
  ResultsContent content(folder);
  const RunningServer server(content);
  const zernel::Metrics metrics(some_records());
  const std::string reply = get(server.port(), "/metrics");
  CHECK(status_of(reply) == 200);
  CHECK(has(reply, "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
  CHECK(body_of(reply) == metrics.prometheus());
  CHECK(has(reply, "zernel_gpu_memory_used_bytes{pid=\"1000\",gpu_id=\"0\"} 4096\n"));
  CHECK(has(reply, "zernel_nccl_collective_duration_seconds{op=\"all_reduce\",quantile=\"0.5\"} 0.004000\n"));
  CHECK(has(reply, "zernel_cuda_launch_latency_seconds_count{pid=\"1000\"} 1\n"));
  CHECK(has(reply, "zernel_dataloader_wait_seconds{pid=\"1000\",quantile=\"0.99\"} 0.008000\n"));
  const std::string snapshot = get(server.port(), "/json");
  CHECK(has(snapshot, "Content-Type: application/json\r\n"));
  CHECK(nlohmann::ordered_json::parse(body_of(snapshot)) == metrics.snapshot());
  CHECK(body_of(get(server.port(), "/health")) == "ok");
  const std::string page = get(server.port(), "/");
  CHECK(has(page, "Content-Type: text/html; charset=utf-8\r\n"));
  CHECK(has(page, "Refresh: 10\r\n"));
  CHECK(has(page, "<h1>pair (sim)</h1>"));
  for (const std::string& name : zernel::stream_names()) {
    const std::string stream = get(server.port(), "/" + name + ".zev");
    CHECK(has(stream, "Content-Type: application/octet-stream\r\n"));
    CHECK_MESSAGE(body_of(stream) == zernel::bytes_of(some_records(), *zernel::parse_stream(name)), name);
  }
}

TEST_CASE("serve: what is not there, or may not be asked so, has its code") {
  FixedContent content;
  const RunningServer server(content, {.head_bytes = 1024, .body_bytes = 100});
  const std::uint16_t port = server.port();
  CHECK(status_of(get(port, "/nothing")) == 404);
  CHECK(status_of(get(port, "/metrics?a=b")) == 200);
  for (const char* outside : {"/../../etc/passwd", "/%2e%2e/etc/passwd", "//etc/passwd", "/summary.json",
                              "/zernel/nccl.zev", "/metrics/..", "/nccl.zev%00"}) {
    CHECK_MESSAGE(status_of(get(port, outside)) == 404, outside);
  }
  CHECK(status_of(get(port, "metrics")) == 400);
  CHECK(status_of(get(port, "http://x/metrics")) == 400);
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "FOO"}) {
    const std::string reply = get(port, "/metrics", method);
    CHECK_MESSAGE(status_of(reply) == 405, method);
    CHECK(has(reply, "Allow: GET, HEAD\r\n"));
  }
  CHECK(status_of(ask(port, "nonsense\r\n\r\n")) == 400);
  CHECK(status_of(ask(port, std::string("\0\1\2\3\r\n\r\n", 8))) == 400);
  CHECK(status_of(ask(port, "GET / HTTP/3.7\r\n\r\n")) == 400);
  CHECK(status_of(ask(port, "GET / HTTP/1.1\r\nBad Header\r\n\r\n")) == 400);
  CHECK(status_of(ask(port, "GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n")) == 400);
  CHECK(status_of(get(port, "/" + std::string(5000, 'a'))) == 431);
  CHECK(status_of(ask(port, "GET / HTTP/1.1\r\nX: " + std::string(5000, 'a') + "\r\n\r\n")) == 431);
  CHECK(status_of(ask(port, "POST / HTTP/1.1\r\nContent-Length: 5000\r\n\r\n" + std::string(5000, 'a'))) == 413);
  CHECK(status_of(ask(port, "GET /health HTTP/1.1\r\nContent-Length: 5\r\nConnection: close\r\n\r\nabcde")) == 200);
  content.fails = true;
  const std::string later = get(port, "/metrics");
  CHECK(status_of(later) == 503);
  CHECK(has(later, "Retry-After: 1\r\n"));
  CHECK(body_of(later) == "results are being written\n");
}

TEST_CASE("serve: HEAD has the length of the body and no body; a connection carries several requests") {
  FixedContent content;
  const RunningServer server(content);
  const std::string head = get(server.port(), "/metrics", "HEAD");
  CHECK(status_of(head) == 200);
  CHECK(has(head, fmt::format("Content-Length: {}\r\n", content.body.size())));
  CHECK(body_of(head).empty());
  const RawClient client(server.port());
  client.send("HEAD / HTTP/1.1\r\n\r\nGET /health HTTP/1.1\r\n\r\nGET /json HTTP/1.1\r\nConnection: close\r\n\r\n");
  const std::string all = client.receive_all();
  CHECK(has(all, "\r\n\r\nok"));
  CHECK(has(all, "{\"last_update_ms\":7}"));
}

TEST_CASE("serve: a client that is silent, or sends byte by byte, loses its place; a slow one gets 408") {
  FixedContent content;
  const RunningServer server(content, {.clients = 4, .request_ms = 300});
  const RawClient silent(server.port()), slow(server.port());
  slow.send("GET /metr");
  CHECK(silent.receive_all().empty());
  CHECK(status_of(slow.receive_all()) == 408);
  // Bytes that trickle in do not extend the time.
  const RawClient trickling(server.port());
  int bytes = 0;
  for (; bytes < 10'000 && !trickling.has_reply_within(10); ++bytes) trickling.send("a");
  CHECK(bytes > 1);
  CHECK(status_of(trickling.receive_all()) == 408);
  CHECK(status_of(get(server.port(), "/health")) == 200);
}

TEST_CASE("serve: one client too many gets 503, and the others their replies") {
  FixedContent content;
  const RunningServer server(content, {.clients = 2});
  const RawClient first(server.port()), second(server.port());
  first.send("GET /health HTTP/1.1\r\n\r\n");
  CHECK(status_of(first.receive(20)) == 200);
  second.send("GET /health HTTP/1.1\r\n\r\n");
  CHECK(status_of(second.receive(20)) == 200);
  CHECK(status_of(get(server.port(), "/health")) == 503);
  first.send("GET /metrics HTTP/1.1\r\nConnection: close\r\n\r\n");
  CHECK(has(first.receive_all(), content.body));
}

TEST_CASE("serve: a client that takes nothing is closed, and does not hold the server up") {
  FixedContent content;
  content.body = std::string(64U << 20U, 'x');
  const RunningServer server(content, {.reply_ms = 300});
  const RawClient stuck(server.port());
  stuck.send("GET /metrics HTTP/1.1\r\n\r\n");
  CHECK(status_of(get(server.port(), "/health")) == 200);
  CHECK(stuck.receive(20).size() == 20);  // it began, and is closed before its end
  for (int look = 0; look < 500 && server.clients() > 0; ++look) ::poll(nullptr, 0, 20);
  CHECK(server.clients() == 0);
  CHECK(stuck.receive_all(2000).size() < content.body.size());
}

TEST_CASE("serve: 10 000 requests from several threads while a run writes its results: right codes, no growth") {
  const std::string folder = results_of_run("serve-hammer");
  ResultsContent content(folder);
  const RunningServer server(content, {.clients = 64, .request_ms = 2000});
  const std::vector<std::pair<std::string, std::vector<int>>> requests{
      {"GET /metrics HTTP/1.1\r\nConnection: close\r\n\r\n", {200, 503}},
      {"GET /json HTTP/1.1\r\nConnection: close\r\n\r\n", {200, 503}},
      {"GET /health HTTP/1.1\r\nConnection: close\r\n\r\n", {200}},
      {"HEAD /nccl.zev HTTP/1.1\r\nConnection: close\r\n\r\n", {200, 503}},
      {"GET / HTTP/1.1\r\nConnection: close\r\n\r\n", {200, 503}},
      {"GET /dist_sync.zev HTTP/1.0\r\n\r\n", {200, 503}},
      {"GET /../../../etc/passwd HTTP/1.1\r\nConnection: close\r\n\r\n", {404}},
      {"POST /metrics HTTP/1.1\r\nConnection: close\r\nContent-Length: 2\r\n\r\nab", {405}},
      {"GET /metrics\r\n\r\n", {400}},
      {"GET /metrics HTTP/1.1\r\nX: " + std::string(10'000, 'y') + "\r\n\r\n", {431}},
      {"PUT / HTTP/1.1\r\nContent-Length: 999999999\r\n\r\n", {413}},
      {std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 15), {400}},
      {"\r\n\r\n\r\nGET /health HTTP/1.1\r\nConnection: close\r\n\r\n", {200, 400}},
  };
  std::atomic<bool> over{false};
  std::thread writer([&] {
    for (int run = 0; !over; ++run) {
      const CommandResult result = run_command_line(
          fmt::format("{} run {} --results '{}' --no-expect --set workload.bytes={}K >/dev/null", meshbed_program(),
                      scenario_file("pair"), fs::path(folder).parent_path().parent_path().string(), 64 + run % 2));
      CHECK(result.status == 0);
      zernel::Streams records = some_records();
      records.nccl.resize(static_cast<std::size_t>(1 + run % 4));
      zernel::write_streams(records, folder + "/zernel");
    }
  });
  constexpr int kThreads = 4;
  std::mutex mutex;
  std::map<int, int> codes;
  std::vector<std::string> wrong;
  const auto hammer = [&](int count, int seed) {
    for (int index = 0; index < count; ++index) {
      const auto& [request, expected] = requests[static_cast<std::size_t>(index * 7 + seed) % requests.size()];
      const RawClient client(server.port());
      client.send(request);
      if (index % 5 == 0) client.end();
      const int code = status_of(client.receive_all());
      const std::lock_guard lock(mutex);
      ++codes[code];
      if (std::find(expected.begin(), expected.end(), code) == expected.end()) {
        wrong.push_back(fmt::format("{} for {}", code, request.substr(0, 60)));
      }
    }
  };
  const auto hammer_all = [&](int count) {
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread) threads.emplace_back(hammer, count / kThreads, thread);
    for (std::thread& thread : threads) thread.join();
  };
  hammer_all(2'000);
  const std::size_t before_bytes = heap_in_use_bytes();
  hammer_all(8'000);
  const std::size_t after_bytes = heap_in_use_bytes();
  over = true;
  writer.join();
  std::string first_wrong;
  for (std::size_t index = 0; index < std::min<std::size_t>(wrong.size(), 5); ++index)
    first_wrong += wrong[index] + "; ";
  CHECK_MESSAGE(wrong.empty(), wrong.size(), " wrong: ", first_wrong);
  int total = 0;
  for (const auto& [code, count] : codes) total += count;
  CHECK(total == 10'000);
  CHECK(codes[200] > 2'000);
  CHECK(after_bytes < before_bytes + (std::size_t{4} << 20U));
}

TEST_CASE("serve: a WebSocket client gets the snapshot each second; others are refused") {
  FixedContent content;
  const RunningServer server(content, {.websocket_clients = 1, .frame_bytes = 64, .snapshot_every_ms = 50});
  CHECK(status_of(get(server.websocket_port(), "/")) == 426);
  CHECK(status_of(ask(server.websocket_port(), "nonsense\r\n\r\n")) == 400);
  const std::string upgrade =
      "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: "
      "dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
  const RawClient client(server.websocket_port());
  client.send(upgrade);
  std::string head;
  while (!has(head, "\r\n\r\n")) {
    const std::string more = client.receive(1);
    if (more.empty()) break;
    head += more;
  }
  CHECK(status_of(head) == 101);
  CHECK(has(head, "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"));  // RFC 6455, 1.3
  const std::string text = R"({"last_update_ms":7})";
  for (int message = 0; message < 3; ++message) {
    const std::string frame = client.receive(2 + text.size());
    REQUIRE(frame.size() == 2 + text.size());
    CHECK(static_cast<unsigned char>(frame[0]) == 0x81);  // a final text frame
    CHECK(static_cast<std::size_t>(frame[1]) == text.size());
    CHECK(frame.substr(2) == text);
  }
  CHECK(status_of(ask(server.websocket_port(), upgrade)) == 503);
  // A longer frame than allowed: the server sends a close frame with code 1009 and ends.
  client.send(std::string("\x81\xfe\x04\x00\x00\x00\x00\x00", 8) + std::string(1024, 'a'));
  const std::string rest = client.receive_all(5000);
  CHECK(has(rest, std::string("\x88\x02\x03\xf1", 4)));
}

TEST_CASE("serve: addresses are read, and refused with a reason") {
  CHECK(parse_address("127.0.0.1:9091").port == 9091);
  CHECK(parse_address(":80").host == "127.0.0.1");
  CHECK(parse_address("0.0.0.0").port == 9091);
  CHECK(parse_address("[::1]:9").host == "::1");
  CHECK(parse_address("[::1]").port == 9091);
  for (const char* refused : {"localhost:9091", "127.0.0.1:", "127.0.0.1:65535", "127.0.0.1:x", "::1:9091", "[::1",
                              "[::1]9091", "127.0.0.1:-1", "1.2.3.4.5:6"}) {
    CHECK_THROWS_AS(parse_address(refused), std::runtime_error);
  }
  FixedContent content;
  const RunningServer server(content);
  try {
    const Server second(Address{.host = "127.0.0.1", .port = server.port()}, content);
    FAIL("the port is taken");
  } catch (const std::runtime_error& error) {
    CHECK(has(error.what(), "give another --listen ADDRESS:PORT"));
  }
}

}  // namespace server_test
