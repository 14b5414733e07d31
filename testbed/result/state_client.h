#pragma once
// Finds the state sockets of running jobs and reads their state: the client side of plugin/net/state/state_socket.h.

#include <string>
#include <vector>

namespace meshbed::testbed {

/// Sockets that may belong to running processes, and folders without read permission.
struct StateSockets {
  std::vector<std::string> paths;    // sorted
  std::vector<std::string> refused;  // folders of other users
};

/// All sockets in `folder`; "/tmp": those in every readable meshbed-<uid> folder there.
StateSockets find_state_sockets(const std::string& parent = "/tmp");
/// Those that `words` name: process numbers, sockets, folders, "@..." for abstract names. Throws std::runtime_error for
/// a word that names no socket.
StateSockets named_state_sockets(const std::vector<std::string>& words, const std::string& parent = "/tmp");

struct StateAnswer {
  std::string path;
  std::string text;     // its reply; empty if there is a problem
  std::string problem;  // in words
  bool stale = false;   // its process has ended; a socket file of ours has been removed
};

/// Queries one process. Waits at most `patience_ms` in total.
StateAnswer ask_for_state(const std::string& path, int patience_ms = 3000);

}  // namespace meshbed::testbed
