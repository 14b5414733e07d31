#pragma once
// Where running jobs can be asked for their state, and what they say: the client's side of
// plugin/net/state/state_socket.h.

#include <string>
#include <vector>

namespace meshbed::testbed {

/// Sockets that may belong to running processes, and folders that may not be looked into.
struct StateSockets {
  std::vector<std::string> paths;    // sorted
  std::vector<std::string> refused;  // folders of other users
};

/// All in `folder`; "/tmp": those in every meshbed-<uid> folder there, of this user or of all that may be read.
StateSockets find_state_sockets(const std::string& parent = "/tmp");
/// Those that `words` name: process numbers, sockets, folders, "@..." for abstract names. Throws std::runtime_error for
/// a word that names none.
StateSockets named_state_sockets(const std::vector<std::string>& words, const std::string& parent = "/tmp");

struct StateAnswer {
  std::string path;
  std::string text;     // what it said; empty where there is a problem
  std::string problem;  // in words
  bool stale = false;   // nobody is behind it any more; the file was taken away where it was ours
};

/// Asks one process. Waits for `patience_ms` in all.
StateAnswer ask_for_state(const std::string& path, int patience_ms = 3000);

}  // namespace meshbed::testbed
