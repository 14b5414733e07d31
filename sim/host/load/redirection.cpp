#include "sim/host/load/redirection.h"

#include <string_view>
#include <unordered_map>

#include "plugin/base/check.h"

namespace meshbed::sim {
namespace {

using Table = std::unordered_map<std::string_view, void*>;

Table make_table() {
  Table table;
  for (const auto part : {thread_redirections(),
                          thread_data_redirections(),
                          thread_local_redirections(),
                          mutex_redirections(),
                          condition_redirections(),
                          rwlock_redirections(),
                          semaphore_redirections(),
                          syscall_redirections(),
                          clock_redirections(),
                          random_redirections(),
                          identity_redirections(),
                          linking_redirections(),
                          socket_redirections(),
                          transfer_redirections(),
                          option_redirections(),
                          descriptor_redirections(),
                          poll_redirections(),
                          pipe_redirections(),
                          interface_redirections(),
                          name_redirections(),
                          path_redirections(),
                          stream_redirections(),
                          shared_file_redirections(),
                          affinity_redirections(),
                          standard_library_redirections(),
                          program_redirections(),
                          getopt_redirections(),
                          refused_redirections()}) {
    for (const Redirection& entry : part) {
      MESHBED_CHECK_MSG(table.emplace(entry.name, entry.function).second, entry.name);
    }
  }
  return table;
}

}  // namespace

void* redirection_of(const char* name) {
  static const Table table = make_table();
  const auto found = table.find(name);
  return found != table.end() ? found->second : nullptr;
}

}  // namespace meshbed::sim
