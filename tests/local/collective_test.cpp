// The engine between processes of one host: every operation is exact, and sums are the bits of any other net plugin's.
#include <cstdint>
#include <cstring>
#include <vector>

#include "plugin/base/prng.h"
#include "tests/local/rank_processes.h"

namespace collective_test {

using namespace meshbed;
using namespace meshbed::test;

namespace {

constexpr int kRanks = 8;

std::int32_t value_of(int rank, std::size_t index) {
  return static_cast<std::int32_t>(mix64((static_cast<std::uint64_t>(rank) << 40U) ^ index) & 0xffffffU);
}

std::vector<std::int32_t> values_of(int rank, std::size_t count) {
  std::vector<std::int32_t> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = value_of(rank, i);
  return values;
}

std::int32_t sum_at(std::size_t index) {
  std::int32_t sum = 0;
  for (int rank = 0; rank < kRanks; ++rank) sum += value_of(rank, index);
  return sum;
}

/// One operation after the other, each with what it must give.
class Operations {
 public:
  Operations(meshcoll_comm* comm, int rank, std::size_t count)
      : comm_(comm), rank_(rank), me_(static_cast<std::size_t>(rank)), count_(count) {}

  std::string run() {
    const std::size_t n = kRanks, all = count_ * n;
    const int root = static_cast<int>(count_ % n), next = (rank_ + 1) % kRanks, last = (rank_ + kRanks - 1) % kRanks;
    const bool is_root = rank_ == root;
    const auto mine = values_of(rank_, count_), blocks = values_of(rank_, all);
    const auto gathered = [&](std::size_t i) { return value_of(static_cast<int>(i / count_), i % count_); };
    const auto summed = [&](std::size_t i) { return sum_at(i); };

    std::vector<std::int32_t> out(count_), whole(all), in_place = mine;
    check("all_reduce", meshcoll_all_reduce(comm_, mine.data(), out.data(), count_, MESHCOLL_INT32, MESHCOLL_SUM), out,
          summed);
    check("all_reduce in place",
          meshcoll_all_reduce(comm_, in_place.data(), in_place.data(), count_, MESHCOLL_INT32, MESHCOLL_SUM), in_place,
          summed);
    check("all_gather", meshcoll_all_gather(comm_, mine.data(), whole.data(), count_, MESHCOLL_INT32), whole, gathered);
    check("reduce_scatter",
          meshcoll_reduce_scatter(comm_, blocks.data(), out.data(), count_, MESHCOLL_INT32, MESHCOLL_SUM), out,
          [&](std::size_t i) { return sum_at(me_ * count_ + i); });
    check("broadcast",
          meshcoll_broadcast(comm_, is_root ? mine.data() : nullptr, out.data(), count_, MESHCOLL_INT32, root), out,
          [&](std::size_t i) { return value_of(root, i); });
    out.assign(count_, -1);
    check(
        "reduce",
        meshcoll_reduce(comm_, mine.data(), is_root ? out.data() : nullptr, count_, MESHCOLL_INT32, MESHCOLL_SUM, root),
        out, [&](std::size_t i) { return is_root ? sum_at(i) : -1; });
    check("all_to_all", meshcoll_all_to_all(comm_, blocks.data(), whole.data(), count_, MESHCOLL_INT32), whole,
          [&](std::size_t i) { return value_of(static_cast<int>(i / count_), me_ * count_ + i % count_); });
    whole.assign(all, -1);
    check("gather", meshcoll_gather(comm_, mine.data(), is_root ? whole.data() : nullptr, count_, MESHCOLL_INT32, root),
          whole, [&](std::size_t i) { return is_root ? gathered(i) : -1; });
    check("scatter",
          meshcoll_scatter(comm_, is_root ? blocks.data() : nullptr, out.data(), count_, MESHCOLL_INT32, root), out,
          [&](std::size_t i) { return value_of(root, me_ * count_ + i); });
    check("send_recv", meshcoll_send_recv(comm_, mine.data(), count_, next, out.data(), count_, last, MESHCOLL_INT32),
          out, [&](std::size_t i) { return value_of(last, i); });
    check("barrier", meshcoll_barrier(comm_), {}, summed);
    return wrong_;
  }

 private:
  template <typename Expected>
  void check(const char* name, meshcoll_result result, const std::vector<std::int32_t>& found,
             const Expected& expected) {
    const auto wrong = [&](const std::string& what) { wrong_.append(name).append(": ").append(what).append("; "); };
    if (result != MESHCOLL_OK) wrong(error_of(comm_));
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (found[i] == expected(i)) continue;
      return wrong("element " + std::to_string(i) + " of " + std::to_string(found.size()));
    }
  }

  meshcoll_comm* comm_;
  int rank_;
  std::size_t me_, count_;
  std::string wrong_;
};

/// Values whose sum depends on the order of the additions.
std::vector<float> uneven(int rank, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(value_of(rank, i)) * 0.1F + (rank == 2 ? 1e12F : 0.0F);
  }
  return values;
}

}  // namespace

TEST_CASE("8 processes: every operation is exact, by every algorithm, and for the smallest sizes") {
  for (const char* algorithm : {"ring", "direct", "tree", "halving-doubling", "torus"}) {
    INFO(std::string(algorithm));
    require_well(run_rank_processes(
        kRanks, [&](meshcoll_options& options) { options.algorithm = algorithm; },
        [](meshcoll_comm* comm, int rank) {
          std::string wrong;
          for (const std::size_t count : {0, 1, 7, 1009, 100003}) wrong += Operations(comm, rank, count).run();
          return wrong;
        }));
  }
}

TEST_CASE("8 processes: lines, several channels and narrow windows are exact too") {
  for (const char* protocol : {"ll", "ll128"}) {
    INFO(std::string(protocol));
    require_well(run_rank_processes(
        kRanks, [&](meshcoll_options& options) { options.protocol = protocol; },
        [](meshcoll_comm* comm, int rank) { return Operations(comm, rank, 1009).run(); }));
  }
  require_well(run_rank_processes(
      kRanks,
      [](meshcoll_options& options) {
        options.channels = 2;
        options.steps = 2;
        options.slice_bytes = 4096;
      },
      [](meshcoll_comm* comm, int rank) { return Operations(comm, rank, 20011).run(); }));
}

TEST_CASE("sums between processes are the same bits as over another net plugin") {
  constexpr int kFew = 5;
  constexpr std::size_t kCount = 4099;
  for (const char* algorithm : {"ring", "direct", "tree"}) {
    INFO(std::string(algorithm));
    const auto choose = [&](meshcoll_options& options) {
      options.algorithm = algorithm;
      options.slice_bytes = 2048;
    };
    const auto sum = [](meshcoll_comm* comm, int rank, meshcoll_dtype type, std::size_t count) {
      std::vector<float> data = uneven(rank, kCount);
      const bool summed = meshcoll_all_reduce(comm, data.data(), data.data(), count, type, MESHCOLL_SUM) == MESHCOLL_OK;
      return summed ? std::string(reinterpret_cast<const char*>(data.data()), kCount * sizeof(float)) : error_of(comm);
    };
    for (const auto type : {MESHCOLL_FLOAT32, MESHCOLL_BFLOAT16}) {
      const std::size_t count = type == MESHCOLL_FLOAT32 ? kCount : 2 * kCount;
      std::vector<std::string> over_loopback(kFew);
      loopback::configure({});
      run_ranks(kFew, choose, [&](meshcoll_comm* comm, int rank) {
        over_loopback[static_cast<std::size_t>(rank)] = sum(comm, rank, type, count);
      });
      const auto ends =
          run_rank_processes(kFew, choose, [&](meshcoll_comm* comm, int rank) { return sum(comm, rank, type, count); });
      for (std::size_t rank = 0; rank < kFew; ++rank) {
        CHECK(ends[rank].signal == 0);
        CHECK(ends[rank].said.size() == kCount * sizeof(float));
        CHECK_MESSAGE(ends[rank].said == over_loopback[rank], "rank ", rank);
        CHECK(ends[rank].said == ends[0].said);
      }
    }
  }
}

}  // namespace collective_test
