// meshbed-engine-cost ENGINE CALL MESSAGES BYTES: two ranks, each a thread with a communicator of the real libmeshcoll
// over the null net, make one CALL (send_recv, all_reduce) of that many messages of BYTES each, while callgrind counts
// (meshbed bench cost). Prints the number of messages that both sent; after a failure, one line on standard error.

#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "plugin/coll/meshcoll.h"

namespace {

constexpr int kRanks = 2;

struct Calls {
  decltype(&meshcoll_get_id) get_id = nullptr;
  decltype(&meshcoll_init) init = nullptr;
  decltype(&meshcoll_destroy) destroy = nullptr;
  decltype(&meshcoll_last_error) last_error = nullptr;
  decltype(&meshcoll_get_stats) get_stats = nullptr;
  decltype(&meshcoll_send_recv) send_recv = nullptr;
  decltype(&meshcoll_all_reduce) all_reduce = nullptr;
};

template <typename Function>
void bind(void* engine, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(engine, name));
  if (function == nullptr) throw std::runtime_error(std::string("the engine has no ") + name);
}

Calls calls_of(const std::string& file) {
  void* const engine = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (engine == nullptr) throw std::runtime_error(dlerror());
  Calls calls;
  bind(engine, "meshcoll_get_id", calls.get_id);
  bind(engine, "meshcoll_init", calls.init);
  bind(engine, "meshcoll_destroy", calls.destroy);
  bind(engine, "meshcoll_last_error", calls.last_error);
  bind(engine, "meshcoll_get_stats", calls.get_stats);
  bind(engine, "meshcoll_send_recv", calls.send_recv);
  bind(engine, "meshcoll_all_reduce", calls.all_reduce);
  return calls;
}

struct Job {
  Calls calls;
  std::string id, call;
  std::uint64_t messages = 0, bytes = 0;
};

/// The messages that this rank sent in its call.
std::uint64_t run(const Job& job, int rank) {
  meshcoll_options options{};
  options.struct_bytes = sizeof options;
  options.rank = rank;
  options.world = kRanks;
  options.bootstrap = job.id.c_str();
  options.net_plugin = "STATIC_PLUGIN";
  options.algorithm = "ring";
  options.slice_bytes = job.bytes;
  meshcoll_comm* comm = nullptr;
  const auto require = [&](meshcoll_result result) {
    if (result != MESHCOLL_OK) throw std::runtime_error(job.calls.last_error(comm));
  };
  require(job.calls.init(&options, &comm));
  const auto sent = [&] {
    meshcoll_stats stats{};
    stats.struct_bytes = sizeof stats;
    require(job.calls.get_stats(comm, &stats));
    return stats.messages_sent;
  };
  const std::size_t count = job.messages * job.bytes / sizeof(float);
  std::vector<float> send(count), recv(count);
  const std::uint64_t before = sent();
  if (job.call == "send_recv") {
    require(job.calls.send_recv(comm, send.data(), count, 1 - rank, recv.data(), count, 1 - rank, MESHCOLL_FLOAT32));
  } else if (job.call == "all_reduce") {
    require(job.calls.all_reduce(comm, send.data(), recv.data(), count, MESHCOLL_FLOAT32, MESHCOLL_SUM));
  } else {
    throw std::runtime_error("no call \"" + job.call + "\": send_recv or all_reduce");
  }
  const std::uint64_t messages = sent() - before;
  require(job.calls.destroy(comm));
  return messages;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 5) {
      std::cerr << "usage: meshbed-engine-cost ENGINE send_recv|all_reduce MESSAGES BYTES (see meshbed bench cost)\n";
      return 2;
    }
    // Both ranks are here, whatever the caller's cluster looks like.
    setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    Job job{.calls = calls_of(argv[1]),
            .id = {},
            .call = argv[2],
            .messages = std::stoull(argv[3]),
            .bytes = std::stoull(argv[4])};
    char id[MESHCOLL_ID_BYTES] = {};
    if (job.calls.get_id(id) != MESHCOLL_OK) throw std::runtime_error(job.calls.last_error(nullptr));
    job.id = id;
    std::uint64_t messages = 0;
    std::exception_ptr problem;
    std::thread other([&] {
      try {
        messages = run(job, 1);
      } catch (const std::exception&) {
        problem = std::current_exception();
      }
    });
    const std::uint64_t mine = run(job, 0);
    other.join();
    if (problem) std::rethrow_exception(problem);
    std::cout << mine + messages << "\n";
    return 0;
  } catch (const std::exception& problem) {
    std::cerr << "meshbed-engine-cost: " << problem.what() << "\n";
    std::_Exit(1);  // the other rank may still wait
  }
}
