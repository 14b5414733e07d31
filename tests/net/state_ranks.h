#pragma once
// What a simulated rank's plugin says of itself, parsed.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/net/mesh_ranks.h"

namespace meshbed::test {

using Json = nlohmann::ordered_json;
using StateFunction = std::size_t (*)(std::int64_t now_ns, char* text, std::size_t size_bytes);

/// The clock of simulated ranks begins at 1000 s.
inline std::int64_t rank_now_ns() { return 1'000'000'000'000 + sim::World::get().now() / kPicosecondsPerNanosecond; }

inline StateFunction state_function(const MeshRank& rank) {
  return reinterpret_cast<StateFunction>(const_cast<void*>(static_cast<const void*>(rank.table<char>("meshbedState"))));
}

inline Json state_of(const MeshRank& rank) {
  const StateFunction function = state_function(rank);
  std::string text(function(rank_now_ns(), nullptr, 0) + 1, '\0');
  text.resize(function(rank_now_ns(), text.data(), text.size()));
  Json state = Json::parse(text, nullptr, false);
  CHECK_FALSE(state.is_discarded());
  return state;
}

/// The only connection of that direction.
inline Json connection_of(const Json& state, const std::string& direction) {
  Json found;
  int count = 0;
  for (const Json& connection : state.at("connections")) {
    if (connection.at("direction") != direction) continue;
    found = connection;
    ++count;
  }
  CHECK(count == 1);
  return found;
}

/// Three messages of 3000 bytes each way.
inline void exchange_three(MeshRank& rank, const Comms& comms, Buffer& out, Buffer& in) {
  for (int message = 0; message < 3; ++message) {
    void* receive = rank.receive(comms.receive, in);
    void* send = rank.send(comms.send, out, 3000);
    CHECK(rank.finish(receive) == 3000);
    CHECK(rank.finish(send) == 3000);
  }
}
/// Of either end, afterwards.
inline void check_three_exchanged(const Json& connection) {
  CHECK(connection.at("posted") == 3);
  CHECK(connection.at("done") == 3);
  CHECK(connection.at("bytes") == 9000);
  CHECK(connection.at("state") == "up");
  CHECK(connection.at("waits_for") == "");
  CHECK(connection.at("outstanding").empty());
}

inline std::string text_of(const Json& object, const char* key) { return object.value(key, std::string("(missing)")); }

}  // namespace meshbed::test
