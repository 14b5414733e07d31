#include "sim/host/load/getopt.h"

#include <getopt.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "sim/host/load/redirection.h"

namespace meshbed::sim {

/// Of one process.
class Getopt {
 public:
  enum class Kind { kShort, kLong, kLongOnly };
  struct Call {
    Kind kind;
    int count;
    char* const* arguments;
    const char* letters;
    const option* names;
    bool operator==(const Call&) const = default;
  };

  int next(const Call& call, int* name_index) {
    if (!goes_on(call)) begin(call);
    answered_.push_back(*index);
    forget_last_line(call);
    std::vector<char*> words = words_;
    for (std::size_t at = 0; at + 1 < answered_.size(); ++at) {
      ::opterr = 0;
      ::optind = answered_[at];
      ask(call, words.data(), unflagged_.data(), nullptr);
    }
    ::opterr = *reports;
    ::optind = *index;
    const int answer = ask(call, words.data(), call.names, name_index);
    *argument = ::optarg;
    *index = ::optind;
    if (answer == '?' || answer == ':') *letter = ::optopt;
    std::copy(words.begin(), words.end() - 1, const_cast<char**>(call.arguments));
    left_ = std::move(words);
    if (answer == -1) answered_.clear();
    return answer;
  }

  // The process's variables.
  char** argument = &own_argument_;
  int *index = &own_index_, *reports = &own_reports_, *letter = &own_letter_;

 private:
  /// False also where the program has changed the words.
  bool goes_on(const Call& call) const {
    return !answered_.empty() && call == call_ && *index != 0 &&
           std::equal(left_.begin(), left_.end() - 1, call.arguments);
  }

  void begin(const Call& call) {
    call_ = call;
    words_.assign(call.arguments, call.arguments + call.count);
    words_.push_back(nullptr);
    unflagged_.clear();
    for (const option* name = call.names; name != nullptr && name->name != nullptr; ++name) {
      unflagged_.push_back({name->name, name->has_arg, nullptr, name->val});
    }
    unflagged_.push_back({});
    answered_.clear();
  }

  /// 0 makes libc begin anew (getopt(3), NOTES); a command line of no words leaves nothing behind.
  static void forget_last_line(const Call& call) {
    std::array<char*, 2> empty{call.count > 0 ? call.arguments[0] : nullptr, nullptr};
    ::optind = 0;
    ::getopt(1, empty.data(), call.letters);
  }

  static int ask(const Call& call, char* const* words, const option* names, int* name_index) {
    switch (call.kind) {
      case Kind::kShort:
        return ::getopt(call.count, words, call.letters);
      case Kind::kLong:
        return ::getopt_long(call.count, words, call.letters, names, name_index);
      case Kind::kLongOnly:
        return ::getopt_long_only(call.count, words, call.letters, names, name_index);
    }
    return -1;
  }

  char* own_argument_ = nullptr;
  int own_index_ = 1, own_reports_ = 1, own_letter_ = '?';
  // The command line under way.
  Call call_{};
  std::vector<char*> words_;       // as they were at its begin: libc moves them
  std::vector<char*> left_;        // as they were after the last call
  std::vector<option> unflagged_;  // call_.names, which set no variable
  std::vector<int> answered_;      // by call so far, optind before it; empty: none is under way
};

namespace {

Getopt& getopt_of(ProcessState& state) {
  if (state.getopt == nullptr) state.getopt = std::make_shared<Getopt>();
  return *state.getopt;
}

int next_letter(int count, char* const* arguments, const char* letters) {
  if (outside()) return ::getopt(count, arguments, letters);
  return getopt_of(current_state()).next({Getopt::Kind::kShort, count, arguments, letters, nullptr}, nullptr);
}
int next_name(int count, char* const* arguments, const char* letters, const option* names, int* name) {
  if (outside()) return ::getopt_long(count, arguments, letters, names, name);
  return getopt_of(current_state()).next({Getopt::Kind::kLong, count, arguments, letters, names}, name);
}
int next_name_only(int count, char* const* arguments, const char* letters, const option* names, int* name) {
  if (outside()) return ::getopt_long_only(count, arguments, letters, names, name);
  return getopt_of(current_state()).next({Getopt::Kind::kLongOnly, count, arguments, letters, names}, name);
}

}  // namespace

void* getopt_variable(ProcessState& state, std::string_view name) {
  Getopt& own = getopt_of(state);
  if (name == "optarg") return own.argument;
  if (name == "optind") return own.index;
  if (name == "opterr") return own.reports;
  if (name == "optopt") return own.letter;
  return nullptr;
}

bool adopt_getopt_variable(ProcessState& state, std::string_view name, void* place) {
  Getopt& own = getopt_of(state);
  const auto adopt = [place](auto*& variable) {
    using Variable = std::remove_reference_t<decltype(*variable)>;
    auto* copy = static_cast<Variable*>(place);
    *copy = *std::exchange(variable, copy);
    return true;
  };
  if (name == "optarg") return adopt(own.argument);
  if (name == "optind") return adopt(own.index);
  if (name == "opterr") return adopt(own.reports);
  return name == "optopt" && adopt(own.letter);
}

std::span<const Redirection> getopt_redirections() {
  static const std::array table{redirect("getopt", &next_letter), redirect("__posix_getopt", &next_letter),
                                redirect("getopt_long", &next_name), redirect("getopt_long_only", &next_name_only)};
  return table;
}

}  // namespace meshbed::sim
