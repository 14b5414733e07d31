#pragma once
// Result<T>: a value, or the reason why there is none.
//
// Carries std::expected's member names, so that it can become it (gcc 12 in C++20 mode has no <expected>).
// The first function that knows that something is an error logs it; the others hand the Error on.
// Recovery switches on Error::scope (the largest thing lost), never on the text.

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace meshbed {

/// The largest thing that an error takes with it.
enum class Scope { kRequest, kQueuePair, kPort, kDevice, kJob };

enum class ErrorCode {
  kInvalidArgument,  // the caller's mistake
  kSystem,           // see Error::os_errno
  kUnreachable,      // no cable, no common subnet, link down
  kTimeout,          // a deadline passed
  kRemote,           // the peer failed, or spoke something that is not our protocol
  kUnsupported,      // an answer, not an accident
  kClosed,           // the object was closed or aborted while the call was under way
  kInternal,
};

/// "remote": the class of an error, for reports.
constexpr const char* class_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid-argument";
    case ErrorCode::kSystem:
      return "system";
    case ErrorCode::kUnreachable:
      return "unreachable";
    case ErrorCode::kTimeout:
      return "timeout";
    case ErrorCode::kRemote:
      return "remote";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kClosed:
      return "closed";
    case ErrorCode::kInternal:
      return "internal";
  }
  return "internal";
}

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  Scope scope = Scope::kRequest;
  std::string text;  // one line: what failed, where, what to do
  int os_errno = 0;  // 0: none
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  bool has_value() const { return !error_.has_value(); }
  explicit operator bool() const { return has_value(); }
  const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

inline Result<void> ok() { return {}; }

}  // namespace meshbed
