#pragma once
// Unix sockets by which processes of one host meet, hand each other memory, and notice each other's end.
//
// Addresses are abstract ones that the kernel chooses: they are in no file system, and end with their last descriptor.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "plugin/base/descriptor.h"
#include "plugin/base/result.h"

namespace meshbed::local {

/// Most that one message brings along.
inline constexpr std::size_t kDescriptorsMax = 2;

struct Letter {
  std::size_t size_bytes = 0;  // of the text
  std::array<Descriptor, kDescriptorsMax> descriptors;
};

class UnixSocket {
 public:
  /// Listens at an address of its own.
  static Result<UnixSocket> listen();
  /// nullopt: the listener has no room just now.
  static Result<std::optional<UnixSocket>> connect(const std::string& address);

  /// Of a listener; without the 0 in front.
  Result<std::string> address() const;
  /// nullopt: no client has connected.
  std::optional<UnixSocket> accept() const;
  /// kRemote: the other end is closed.
  Result<void> send(std::span<const char> text, std::span<const int> descriptors) const;
  /// nullopt: not yet. kRemote: the other end is closed.
  Result<std::optional<Letter>> receive(std::span<char> text) const;
  /// The process at the other end; 0: one that this process has no number for.
  int process() const;
  /// The other end was closed, by its process or by the end of that.
  bool is_gone() const;

 private:
  explicit UnixSocket(Descriptor descriptor) : descriptor_(std::move(descriptor)) {}
  Descriptor descriptor_;
};

}  // namespace meshbed::local
