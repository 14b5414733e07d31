#include "sim/host/load/getopt.h"

#include <getopt.h>

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
    const bool goes_on = position_ < answers_.size() && call == call_ && *index == index_then_;
    if (!goes_on) read_all(call);
    const Answer& answer = answers_[position_++];
    *argument = answer.argument;
    *index = index_then_ = answer.index;
    *letter = answer.letter;
    if (name_index != nullptr && answer.name >= 0) *name_index = answer.name;
    return answer.value;
  }

  // The process's variables.
  char** argument = &own_argument_;
  int *index = &own_index_, *reports = &own_reports_, *letter = &own_letter_;

 private:
  struct Answer {
    int value, index, letter, name;
    char* argument;
  };

  void read_all(const Call& call) {
    // 0 makes libc forget the last command line (getopt(3), NOTES); then it may begin further on.
    std::array<char*, 2> empty{call.count > 0 ? call.arguments[0] : nullptr, nullptr};
    ::optind = 0;
    ::getopt(1, empty.data(), "");
    ::optind = *index > 1 ? *index : 0;
    ::opterr = *reports;
    call_ = call;
    answers_.clear();
    position_ = 0;
    do {
      Answer answer{.value = 0, .index = 0, .letter = 0, .name = -1, .argument = nullptr};
      answer.value = ask(call, &answer.name);
      answer.argument = ::optarg;
      answer.index = ::optind;
      answer.letter = ::optopt;
      answers_.push_back(answer);
    } while (answers_.back().value != -1);
  }

  static int ask(const Call& call, int* name) {
    switch (call.kind) {
      case Kind::kShort:
        return ::getopt(call.count, call.arguments, call.letters);
      case Kind::kLong:
        return ::getopt_long(call.count, call.arguments, call.letters, call.names, name);
      case Kind::kLongOnly:
        return ::getopt_long_only(call.count, call.arguments, call.letters, call.names, name);
    }
    return -1;
  }

  char* own_argument_ = nullptr;
  int own_index_ = 1, own_reports_ = 1, own_letter_ = '?';
  Call call_{};
  std::vector<Answer> answers_;
  std::size_t position_ = 0;
  int index_then_ = 0;  // as the program saw it after the last answer
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
