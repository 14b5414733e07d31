#pragma once
// Handshake: the two ranks of a test, over a plain TCP connection on the management network.
//
// Blocking, one thread. Everything throws std::runtime_error where the peer is gone or does not come in time.

#include <array>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "tests/contract/suite/contract.h"

namespace meshbed::contract {

class Handshake {
 public:
  explicit Handshake(const ContractPlace& place);
  ~Handshake();
  Handshake(const Handshake&) = delete;
  Handshake& operator=(const Handshake&) = delete;

  /// Hands `mine` to the peer and returns its. Both call it, or neither.
  template <typename Value>
  Value swap(const Value& mine) {
    static_assert(std::is_trivially_copyable_v<Value>);
    send(&mine, sizeof mine);
    std::array<char, sizeof(Value)> bytes;
    receive(bytes.data(), bytes.size());
    Value theirs;
    std::memcpy(&theirs, bytes.data(), bytes.size());
    return theirs;
  }
  /// Returns once both are here.
  void meet() { swap('.'); }

 private:
  void send(const void* data, std::size_t size) const;
  void receive(char* data, std::size_t size) const;
  int socket_ = -1;
};

}  // namespace meshbed::contract
