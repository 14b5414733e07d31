#include "plugin/net/connect/attendance.h"

#include <doctest/doctest.h>

#include "tests/net/addresses.h"

namespace attendance_test {

using namespace meshbed;
using namespace meshbed::net;

namespace {

constexpr std::uint64_t kOneWay = 1, kOtherWay = 2, kBothWays = kOneWay | kOtherWay;

Attendance::Who process(std::uint64_t node, std::uint32_t number = 1, std::uint16_t port = 0) {
  return {.node = node, .process = number, .circuit_port = port};
}

std::vector<PeerAddress> at(const std::string& address) { return test::as_peer({test::nic("a0", {address})}); }

}  // namespace

TEST_CASE("attendance: two that are heard of by different ways need us, until one of them leaves") {
  Attendance attendance;
  CHECK(attendance.is_empty());
  attendance.asked(process(1), 7, kOneWay);
  CHECK_FALSE(attendance.need_us(kBothWays));
  attendance.answered(process(2, 1, 40'002), kOtherWay, at("192.168.102.2/24"));
  CHECK(attendance.need_us(kBothWays));
  CHECK_FALSE(attendance.need_us(kOneWay));
  attendance.left(process(1));
  CHECK_FALSE(attendance.need_us(kBothWays));
  CHECK_FALSE(attendance.is_empty());
}

TEST_CASE("attendance: two processes of one node, of one subnet, of one way, or of ways that meet do not need us") {
  const auto need = [](const Attendance::Who& other, std::uint64_t way, const std::string& address) {
    Attendance attendance;
    attendance.answered(process(1), kOneWay, at("192.168.101.1/24"));
    attendance.answered(other, way, at(address));
    return attendance.need_us(kBothWays);
  };
  CHECK(need(process(2), kOtherWay, "192.168.102.2/24"));
  CHECK_FALSE(need(process(1, 2), kOtherWay, "192.168.102.2/24"));
  CHECK_FALSE(need(process(2), kOtherWay, "192.168.101.2/24"));
  CHECK_FALSE(need(process(2), kOneWay, "192.168.102.2/24"));
  CHECK_FALSE(need(process(2), kBothWays, "192.168.102.2/24"));
  CHECK_FALSE(need(process(2), 0, "192.168.102.2/24"));
}

TEST_CASE("attendance: one question's ways add up, another one's are those of now") {
  Attendance attendance;
  attendance.asked(process(2), 1, kOtherWay);
  attendance.asked(process(1), 7, kOneWay);
  attendance.asked(process(1), 7, kOtherWay);
  CHECK_FALSE(attendance.need_us(kBothWays));
  attendance.asked(process(1), 8, kOneWay);
  CHECK(attendance.need_us(kBothWays));
}

TEST_CASE("attendance: who has left answers on and is not there again; who asks is, or has another port") {
  Attendance attendance;
  attendance.asked(process(1), 7, kOneWay);
  const auto answers = [&](std::uint16_t port) {
    attendance.answered(process(2, 1, port), kOtherWay, at("192.168.102.2/24"));
  };
  attendance.left(process(2));
  answers(40'002);
  CHECK_FALSE(attendance.need_us(kBothWays));
  attendance.asked(process(2), 8, kOtherWay);
  CHECK(attendance.need_us(kBothWays));
  answers(40'002);
  attendance.left(process(2));
  answers(40'002);
  CHECK_FALSE(attendance.need_us(kBothWays));
  answers(40'003);
  CHECK(attendance.need_us(kBothWays));
  attendance.left(process(2));
  attendance.asked(process(2), 9, kOtherWay);
  CHECK(attendance.need_us(kBothWays));
}

TEST_CASE("attendance: those who are there are forgotten, and who has left is not") {
  Attendance attendance;
  attendance.asked(process(1), 7, kOneWay);
  attendance.asked(process(2), 8, kOtherWay);
  attendance.left(process(3));
  attendance.forget_present();
  CHECK_FALSE(attendance.need_us(kBothWays));
  attendance.asked(process(1), 9, kOneWay);
  attendance.answered(process(3, 1, 40'003), kOtherWay, at("192.168.103.2/24"));
  CHECK_FALSE(attendance.need_us(kBothWays));
}

TEST_CASE("attendance: however many come it keeps so many, and the departed make room") {
  Attendance attendance;
  for (std::uint32_t number = 0; number < Attendance::kMost; ++number) attendance.asked(process(1, number), 1, kOneWay);
  attendance.asked(process(2), 1, kOtherWay);
  CHECK_FALSE(attendance.need_us(kBothWays));
  attendance.left(process(1, 5));
  attendance.asked(process(2), 2, kOtherWay);
  CHECK(attendance.need_us(kBothWays));
}

}  // namespace attendance_test
