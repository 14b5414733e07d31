// Every test program's main(): doctest's, and two things that ctest asks for by environment (cmake/tests.cmake).
//
// MESHBED_SHARD=2/3: the second of three parts of the program's test cases. No two parts share one, and all together
// are all; neighbours in a file go to different parts, for they take similarly long.
//
// MESHBED_CASE_LOG=1: lines "[begins] TEST CASE" and "[ends] SECONDS s, passed: TEST CASE" (or failed), each written at
// once: tests/run_tests.sh finds in them which test case was running in a program that was cut off, and which are
// slow.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace {

/// Takes it out of the environment: it is meant for this program, not for those that its tests start.
std::string take_variable(const char* name) {
  const char* value = std::getenv(name);
  std::string text = value != nullptr ? value : "";
  ::unsetenv(name);
  return text;
}

bool g_logs_cases = false;

class CaseLog : public doctest::IReporter {
 public:
  explicit CaseLog(const doctest::ContextOptions&) {}

  void test_case_start(const doctest::TestCaseData& data) override {
    name_ = data.m_name;
    say("[begins] " + name_);
  }
  void test_case_end(const doctest::CurrentTestCaseStats& stats) override {
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, "%.3f", stats.seconds);
    say(std::string("[ends] ") + seconds + " s, " + (stats.testCaseSuccess ? "passed: " : "failed: ") + name_);
  }

  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}

 private:
  /// In one piece, after what was printed before. A forked child that crashes comes here too: the line is its parent's.
  void say(const std::string& text) const {
    if (!g_logs_cases || ::getpid() != process_) return;
    std::cout.flush();
    std::fflush(stdout);
    const std::string line = text + "\n";
    static_cast<void>(::write(STDOUT_FILENO, line.data(), line.size()) == 0);
  }

  const pid_t process_ = ::getpid();
  std::string name_;
};
REGISTER_LISTENER("meshbed_cases", 2, CaseLog);

/// Leaves this part's test cases. False: `part` is none.
bool keep_shard(const std::string& part) {
  unsigned index = 0, count = 0;
  char rest = 0;
  if (std::sscanf(part.c_str(), "%u/%u%c", &index, &count, &rest) != 2 || index < 1 || index > count) return false;
  std::set<doctest::detail::TestCase>& cases = doctest::detail::getRegisteredTests();
  std::vector<std::set<doctest::detail::TestCase>::const_iterator> in_order;
  for (auto one = cases.begin(); one != cases.end(); ++one) in_order.push_back(one);
  const auto place = [](const auto& one) {
    return std::make_tuple(std::string(one->m_file.c_str()), one->m_line, one->m_template_id, std::string(one->m_name));
  };
  std::sort(in_order.begin(), in_order.end(),
            [&](const auto& left, const auto& right) { return place(left) < place(right); });
  for (std::size_t at = 0; at < in_order.size(); ++at) {
    if (at % count != index - 1) cases.erase(in_order[at]);
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  // What a program said before it crashed or was killed is in the log, and a child that it forked does not repeat it.
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  g_logs_cases = !take_variable("MESHBED_CASE_LOG").empty();
  if (const std::string part = take_variable("MESHBED_SHARD"); !part.empty() && !keep_shard(part)) {
    std::fprintf(stderr, "MESHBED_SHARD=%s: say which part of how many, as 2/3\n", part.c_str());
    return 2;
  }
  return doctest::Context(argc, argv).run();
}
