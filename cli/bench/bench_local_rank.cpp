// Open MPI's library is loaded, not linked: its handles are data symbols (ompi_mpi_comm_world, ...) of libmpi.so.40, by
// its own mpi.h, so that neither the header nor the library is needed to build.
#include "cli/bench/bench_local_rank.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <functional>
#include <limits>
#include <ostream>
#include <stdexcept>
#include <vector>

#include "plugin/base/deadline.h"
#include "plugin/base/prng.h"
#include "plugin/coll/meshcoll.h"
#include "testbed/base/files.h"

namespace meshbed::testbed {
namespace {

struct Job {
  int rank = 0, ranks = 1;
  std::function<void()> barrier;
  std::function<void(const float* input, float* output, std::size_t count)> all_reduce;
};

class Library {
 public:
  explicit Library(const std::string& path) : handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL)) {
    if (handle_ == nullptr) throw std::runtime_error(fmt::format("bench local: {}", dlerror()));
  }
  template <typename Function>
  Function* function(const char* name) const {
    return reinterpret_cast<Function*>(data(name));
  }
  void* data(const char* name) const {
    if (void* found = dlsym(handle_, name)) return found;
    throw std::runtime_error(fmt::format("bench local: {}", dlerror()));
  }

 private:
  void* handle_;
};

// Whole numbers below 2^12: exact in any order of the additions.
float value_of(int rank, std::size_t index) {
  return static_cast<float>(mix64((static_cast<std::uint64_t>(rank) << 40U) ^ index) & 0xfffU);
}

void iterate(const Job& job, const LocalRankOptions& options, std::ostream& out) {
  const std::size_t count = options.bytes / sizeof(float);
  std::vector<float> input(count), output(count);
  for (std::size_t i = 0; i < count; ++i) input[i] = value_of(job.rank, i);
  for (int iteration = 0; iteration <= options.iterations; ++iteration) {
    job.barrier();
    const std::int64_t begin_ns = now_ns();
    job.all_reduce(input.data(), output.data(), count);
    const std::int64_t end_ns = now_ns();
    if (iteration > 0) out << fmt::format("iteration {} {} {}\n", iteration, begin_ns, end_ns);
  }
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i) {
    float sum = 0;
    for (int rank = 0; rank < job.ranks; ++rank) sum += value_of(rank, i);
    wrong += output[i] != sum ? 1 : 0;
  }
  out << fmt::format("wrong {}\n", wrong) << std::flush;
}

/// mpi.h's prototypes, its handle types being pointers.
void run_mpi(const LocalRankOptions& options, std::ostream& out) {
  const Library mpi("libmpi.so.40");
  void* const world = mpi.data("ompi_mpi_comm_world");
  const auto well = [](int code) {
    if (code != 0) throw std::runtime_error(fmt::format("bench local: Open MPI answers {}", code));
  };
  if (options.bytes / sizeof(float) > std::numeric_limits<int>::max()) {
    throw std::runtime_error("bench local: MPI counts elements in an int");
  }
  well(mpi.function<int(int*, char***)>("MPI_Init")(nullptr, nullptr));
  Job job;
  well(mpi.function<int(void*, int*)>("MPI_Comm_rank")(world, &job.rank));
  well(mpi.function<int(void*, int*)>("MPI_Comm_size")(world, &job.ranks));
  auto* barrier = mpi.function<int(void*)>("MPI_Barrier");
  auto* all_reduce = mpi.function<int(const void*, void*, int, void*, void*, void*)>("MPI_Allreduce");
  void* const type = mpi.data("ompi_mpi_float");
  void* const sum = mpi.data("ompi_mpi_op_sum");
  job.barrier = [&] { well(barrier(world)); };
  job.all_reduce = [&](const float* input, float* output, std::size_t count) {
    well(all_reduce(input, output, static_cast<int>(count), type, sum, world));
  };
  iterate(job, options, out);
  well(mpi.function<int()>("MPI_Finalize")());
}

void run_engine(const LocalRankOptions& options, std::ostream& out) {
  const BuiltFiles files = built_files();
  const Library engine(files.engine);
  meshcoll_comm* comm = nullptr;
  const auto well = [&](meshcoll_result result) {
    if (result == MESHCOLL_OK) return;
    throw std::runtime_error(engine.function<decltype(meshcoll_last_error)>("meshcoll_last_error")(comm));
  };
  meshcoll_options chosen{};
  chosen.struct_bytes = sizeof chosen;
  char bootstrap[MESHCOLL_ID_BYTES] = {};
  well(engine.function<decltype(meshcoll_read_launcher)>("meshcoll_read_launcher")(&chosen.rank, &chosen.world,
                                                                                   bootstrap));
  chosen.bootstrap = bootstrap;
  chosen.net_plugin = files.local_plugin.c_str();
  chosen.algorithm = options.algorithm.c_str();
  well(engine.function<decltype(meshcoll_init)>("meshcoll_init")(&chosen, &comm));
  Job job;
  job.rank = chosen.rank;
  job.ranks = chosen.world;
  auto* barrier = engine.function<decltype(meshcoll_barrier)>("meshcoll_barrier");
  auto* all_reduce = engine.function<decltype(meshcoll_all_reduce)>("meshcoll_all_reduce");
  job.barrier = [&] { well(barrier(comm)); };
  job.all_reduce = [&](const float* input, float* output, std::size_t count) {
    well(all_reduce(comm, input, output, count, MESHCOLL_FLOAT32, MESHCOLL_SUM));
  };
  iterate(job, options, out);
  well(engine.function<decltype(meshcoll_destroy)>("meshcoll_destroy")(comm));
}

}  // namespace

void run_local_rank(const LocalRankOptions& options, std::ostream& out) {
  if (options.by == "mpi") return run_mpi(options, out);
  run_engine(options, out);
}

}  // namespace meshbed::testbed
