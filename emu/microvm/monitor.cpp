#include "emu/microvm/monitor.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>

namespace meshbed::emu {
namespace {

// Generous: on a busy host many QEMUs start at once.
constexpr double kAnswerLimit_s = 60;

}  // namespace

nlohmann::json Monitor::next_object(const Deadline& deadline, const std::string& awaited) {
  const auto fail = [&](const std::string& why) {
    throw std::runtime_error(fmt::format("node '{}': QEMU's monitor: {} while waiting for {}", name_, why, awaited));
  };
  for (;;) {
    if (const auto end = received_.find('\n'); end != std::string::npos) {
      const std::string line = received_.substr(0, end);
      received_.erase(0, end + 1);
      nlohmann::json object = nlohmann::json::parse(line, nullptr, false);
      if (!object.is_object()) fail("an answer that is no JSON object");
      return object;
    }
    pollfd wanted{.fd = socket_.number(), .events = POLLIN, .revents = 0};
    const int ready = poll(&wanted, 1, deadline.remaining_ms());
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) fail(fmt::format("no answer in {} s", kAnswerLimit_s));
    std::array<char, 4096> block{};
    const ssize_t size = recv(socket_.number(), block.data(), block.size(), 0);
    if (size <= 0) fail("QEMU is gone");
    received_.append(block.data(), static_cast<std::size_t>(size));
  }
}

void Monitor::greet() {
  const Deadline deadline = Deadline::after_s(kAnswerLimit_s);
  while (!next_object(deadline, "its greeting").contains("QMP")) {
  }
  execute("qmp_capabilities");
}

void Monitor::execute(const std::string& command) { execute(command, nlohmann::json::object()); }

void Monitor::execute(const std::string& command, const nlohmann::json& arguments) {
  const std::string text = nlohmann::json{{"execute", command}, {"arguments", arguments}}.dump() + "\n";
  if (send(socket_.number(), text.data(), text.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(text.size())) {
    throw std::runtime_error(
        fmt::format("node '{}': QEMU does not take '{}': {}", name_, command, std::generic_category().message(errno)));
  }
  const Deadline deadline = Deadline::after_s(kAnswerLimit_s);
  for (;;) {
    const nlohmann::json object = next_object(deadline, fmt::format("the answer to '{}'", command));
    if (object.contains("return")) return;
    if (!object.contains("error")) continue;  // an event
    throw std::runtime_error(fmt::format("node '{}': QEMU refuses '{}': {}", name_, command,
                                         object["error"].value("desc", "without a reason")));
  }
}

}  // namespace meshbed::emu
