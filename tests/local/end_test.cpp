// Ends of processes: the survivors learn which has ended, none hangs, and nothing stays behind.
#include <poll.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "tests/local/rank_processes.h"

namespace end_test {

using namespace meshbed::test;

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kCount = 100000;

meshcoll_result reduce(meshcoll_comm* comm) {
  std::vector<float> data(kCount, 1);
  return meshcoll_all_reduce(comm, data.data(), data.data(), kCount, MESHCOLL_FLOAT32, MESHCOLL_SUM);
}

/// How many all_reduces went well before one did not; then its error.
std::string reduce_until_error(meshcoll_comm* comm) {
  while (reduce(comm) == MESHCOLL_OK) {
  }
  return error_of(comm);
}

/// What this process holds of the plugin's: descriptors, and lines of /proc/self/maps that name shared memory.
struct Holdings {
  std::vector<std::string> descriptors, mappings;
};

Holdings holdings() {
  Holdings found;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // of the iterator's own descriptor
    const std::string target = fs::read_symlink(entry.path(), gone);
    if (!gone && target.find("/proc/") != 0) found.descriptors.push_back(target);
  }
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (contains(line, "/memfd:") || contains(line, "/dev/shm")) found.mappings.push_back(line);
  }
  return found;
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

TEST_CASE("a process that is killed ends the others' calls, with its rank") {
  for (const char* algorithm : {"ring", "direct"}) {
    for (const int victim : {1, 5}) {
      INFO(std::string(algorithm), ", rank ", victim);
      const auto ends = run_rank_processes(
          8, [&](meshcoll_options& options) { options.algorithm = algorithm; },
          [&](meshcoll_comm* comm, int rank) -> std::string {
            for (int before = 0; rank == victim && before < 3; ++before) {
              if (reduce(comm) != MESHCOLL_OK) return error_of(comm);
            }
            if (rank == victim) raise(SIGKILL);
            return reduce_until_error(comm);
          });
      for (int rank = 0; rank < 8; ++rank) {
        const ProcessEnd& end = ends[static_cast<std::size_t>(rank)];
        CHECK(end.signal == (rank == victim ? SIGKILL : 0));
        if (rank == victim) continue;
        CHECK_MESSAGE(contains(end.said, "rank " + std::to_string(victim)), "rank ", rank, ": ", end.said);
      }
    }
  }
}

TEST_CASE("an abort ends the others' calls, with its reason") {
  const auto ends = run_rank_processes(4, nullptr, [](meshcoll_comm* comm, int rank) -> std::string {
    if (reduce(comm) != MESHCOLL_OK) return "too early: " + error_of(comm);
    if (rank != 3) return reduce_until_error(comm);
    return meshcoll_abort(comm, "enough") == MESHCOLL_OK ? "" : "abort failed";
  });
  for (int rank = 0; rank < 3; ++rank) {
    CHECK_MESSAGE(contains(ends[static_cast<std::size_t>(rank)].said, "enough"),
                  ends[static_cast<std::size_t>(rank)].said);
  }
  CHECK(ends[3].said.empty());
}

TEST_CASE("no memory has a name while ranks run, and a communicator takes all of it with it, broken or not") {
  for (const bool breaks : {false, true}) {
    INFO(breaks);
    // Before init and after destroy, so not as run_rank_processes' body.
    std::vector<std::function<std::string()>> bodies;
    const std::string plugin = local_plugin();
    char id[MESHCOLL_ID_BYTES] = "127.0.0.1:0";
    const fs::path meeting = fs::temp_directory_path() / ("meshbed-local-" + std::to_string(getpid()));
    for (int rank = 0; rank < 3; ++rank) {
      bodies.emplace_back([=]() mutable -> std::string {
        const Holdings before = holdings();
        if (rank == 0) {
          if (meshcoll_get_id(id) != MESHCOLL_OK) return error_of(nullptr);
          std::ofstream(meeting.string() + ".part") << id << "\n";
          fs::rename(meeting.string() + ".part", meeting);
        } else {
          while (!fs::exists(meeting)) sched_yield();
          std::ifstream(meeting) >> id;
        }
        meshcoll_options options{};
        options.struct_bytes = sizeof options;
        options.rank = rank;
        options.world = 3;
        options.bootstrap = id;
        options.net_plugin = plugin.c_str();
        options.connect_timeout_ms = 60000;
        meshcoll_comm* comm = nullptr;
        if (meshcoll_init(&options, &comm) != MESHCOLL_OK) return error_of(nullptr);
        if (reduce(comm) != MESHCOLL_OK) return error_of(comm);
        const Holdings during = holdings();
        std::string wrong;
        // A ring's neighbours: two links with a ring and two bells each, one of which is our own.
        if (during.mappings.size() < 4) wrong += "is this shared memory? ";
        for (const std::string& line : during.mappings) {
          if (!contains(line, "(deleted)") || contains(line, "/dev/shm")) wrong += "named: " + line + "; ";
        }
        if (breaks && rank == 1) {
          // The others have looked around by the time that they say something.
          for (const int other : {0, 2}) {
            float word = 0;
            if (meshcoll_send_recv(comm, nullptr, 0, -1, &word, 1, other, MESHCOLL_FLOAT32) != MESHCOLL_OK) {
              wrong += error_of(comm);
            }
          }
          meshcoll_abort(comm, "enough");
        } else if (breaks) {
          const float word = 1;
          // May end with the abort already.
          (void)meshcoll_send_recv(comm, &word, 1, 1, nullptr, 0, -1, MESHCOLL_FLOAT32);
          reduce_until_error(comm);
        }
        if (meshcoll_destroy(comm) != MESHCOLL_OK) wrong += "destroy failed; ";
        const Holdings after = holdings();
        for (const std::string& line : after.mappings) wrong += "still mapped: " + line + "; ";
        if (after.descriptors.size() != before.descriptors.size()) {
          for (const std::string& target : after.descriptors) wrong += "still open, perhaps: " + target + "; ";
        }
        return wrong;
      });
    }
    require_well(run_children(bodies));
    fs::remove(meeting);
  }
}

TEST_CASE("who waits for a rank that is late leaves the processor to others") {
  constexpr int kLateMs = 600;
  require_well(run_rank_processes(2, nullptr, [](meshcoll_comm* comm, int rank) -> std::string {
    if (reduce(comm) != MESHCOLL_OK) return error_of(comm);
    const double cpu_before = cpu_seconds();
    if (rank == 0) poll(nullptr, 0, kLateMs);
    if (reduce(comm) != MESHCOLL_OK) return error_of(comm);
    // A thread that spins would take nearly all of that time; this one wakes every millisecond.
    const double share = 1e3 * (cpu_seconds() - cpu_before) / kLateMs;
    return share < 0.3 ? "" : "waiting took " + std::to_string(share) + " of a processor";
  }));
}

}  // namespace end_test
