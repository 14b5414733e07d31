#include "cli/bench/perf_format.h"

#include <doctest/doctest.h>

#include <stdexcept>

namespace perf_format_test {

using namespace meshbed;
using namespace meshbed::testbed;

TEST_CASE("sizes are read as nccl-tests reads them") {
  CHECK(parse_size("8") == 8);
  CHECK(parse_size("64K") == 64 * kKiB);
  CHECK(parse_size("256M") == 256 * kMiB);
  CHECK(parse_size("1g") == kGiB);
  // A double times the unit, cut off to whole bytes (nccl-tests 2.19.6, src/common.cu, lines 227-261 and 1223).
  CHECK(parse_size("6.9G") == 7'408'818'585);
  CHECK(parse_size("1.5M") == 3 * kMiB / 2);
  CHECK(parse_size("0.5k") == 512);
  CHECK(parse_size("7.9") == 7);
  // Its sscanf("%lf %1s") reads the letter and nothing behind it.
  CHECK(parse_size("8KB") == 8 * kKiB);
  CHECK(parse_size("8KiB") == 8 * kKiB);
  for (const char* text : {"", "K", "-1", "8 K", "8KX", "8T", "1.2.3", "1e6", "0x10", ".5M", "99999999999999999999",
                           "18446744073709551615K", "99999999999.5G", "18446744073709551000.5", "9223372036854775808",
                           "9223372036854775807.5"}) {
    CHECK_THROWS_AS(parse_size(text), std::runtime_error);
  }
}

TEST_CASE("statistics of iterations are nccl-tests': nearest rank, the deviation of all, the first left out") {
  // src/util.cu at 2.19.6, computeIterStats (lines 535-557) and percentileIndex (531-533).
  CaseResults board;
  for (const Picoseconds time_ps : {9'000'000, 1'000'000, 2'000'000, 3'000'000, 4'000'000}) {
    board.iterations.push_back({.start_ps = 0, .end_ps = time_ps});
  }
  const IterationStatistics all = iteration_statistics(board, 0);
  CHECK(all.times_us == std::vector<double>{9, 1, 2, 3, 4});
  CHECK(all.min_us == 1);
  CHECK(all.max_us == 9);
  CHECK(all.p50_us == 3);
  CHECK(all.p99_us == 9);
  const IterationStatistics warm = iteration_statistics(board, 1);
  CHECK(warm.times_us.size() == 5);
  CHECK(warm.max_us == 4);
  CHECK(warm.p50_us == 3);  // sorted[n / 2]
  CHECK(warm.average_us == doctest::Approx(2.5));
  CHECK(warm.deviation_us == doctest::Approx(1.118034));
  board.operations = 2;  // an iteration of two operations: the time is one's
  CHECK(iteration_statistics(board, 0).max_us == 4.5);
  CHECK(board.average_ps() == 1'900'000);
  CHECK(board.fastest_ps() == 500'000);
}

TEST_CASE("a sweep multiplies by the factor, or adds the step, up to the largest size") {
  CHECK(sweep_sizes({.min_bytes = 8, .max_bytes = 64, .step_factor = 2}) == std::vector<std::uint64_t>{8, 16, 32, 64});
  CHECK(sweep_sizes({.min_bytes = 8, .max_bytes = 30, .step_bytes = 8}) == std::vector<std::uint64_t>{8, 16, 24});
  CHECK(sweep_sizes({.min_bytes = 5, .max_bytes = 5}) == std::vector<std::uint64_t>{5});
  CHECK(sweep_sizes({.min_bytes = 8, .max_bytes = 256 * kMiB, .step_factor = 2}).size() == 26);
}

TEST_CASE("a sweep without end or without a size is refused") {
  CHECK_THROWS_AS(sweep_sizes({.min_bytes = 0, .max_bytes = 64, .step_factor = 2}), std::runtime_error);
  CHECK_THROWS_AS(sweep_sizes({.min_bytes = 8, .max_bytes = 64, .step_bytes = 0}), std::runtime_error);
  CHECK_THROWS_AS(sweep_sizes({.min_bytes = 64, .max_bytes = 8}), std::runtime_error);
  CHECK_THROWS_AS(sweep_sizes({.min_bytes = 0, .max_bytes = kGiB, .step_bytes = 1}), std::runtime_error);
}

TEST_CASE("a figure has two decimals where they fit, then one, then none") {
  CHECK(figure(0, 7) == "   0.00");
  CHECK(figure(6.04, 7) == "   6.04");
  CHECK(figure(7304.75, 7) == "7304.75");
  CHECK(figure(14606.52, 7) == "14606.5");
  CHECK(figure(128000.4, 7) == " 128000");
  CHECK(figure(1234567.8, 7) == "1234568");
  CHECK(figure(12345678.0, 7) == "1.2e+07");
  CHECK(figure(12.249, 6) == " 12.25");
  CHECK(figure(1234.5, 6) == "1234.5");
}

TEST_CASE("a row has the columns of nccl-tests 2.19") {
  const CollectiveShape shape = shape_of(models::Collective::kAllReduce, 1 * kMiB, 3);
  CaseResults board;
  board.iterations = {{.start_ps = 0, .end_ps = 100'000'000}, {.start_ps = 0, .end_ps = 134'300'000}};
  CHECK(perf_row({.op = models::Collective::kAllReduce}, shape, board, board, 4.0 / 3.0, {}) ==
        "     1048576        262144     float     sum      -1   117.15    8.95   11.93       0   117.15    8.95   11.93"
        "       0\n");
  CHECK(perf_row({.op = models::Collective::kBroadcast, .root = 2}, shape, board, board, 1, {.check = false}) ==
        "     1048576        262144     float    none       2   117.15    8.95    8.95     N/A   117.15    8.95    8.95"
        "     N/A\n");
  const CollectiveCase half_maximum{.op = models::Collective::kReduce,
                                    .type = coll::DataType::kBfloat16,
                                    .reduction = coll::ReduceOp::kMax,
                                    .root = 1};
  CHECK(perf_row(half_maximum, shape_of(half_maximum.op, 1 * kMiB, 3, half_maximum.type), board, board, 1, {}) ==
        "     1048576        524288  bfloat16     max       1   117.15    8.95    8.95       0   117.15    8.95    8.95"
        "       0\n");
}

TEST_CASE("counts and sizes are those of nccl-tests: shares are rounded down to 16 bytes a rank") {
  const auto gather = shape_of(models::Collective::kAllGather, 1000, 3);
  CHECK(gather.count == 80);  // 250 elements, 83 a rank
  CHECK(gather.recv_count == 240);
  CHECK(gather.bytes == 960);
  const auto scatter = shape_of(models::Collective::kReduceScatter, 1000, 3);
  CHECK(scatter.count == 80);
  CHECK(scatter.send_count == 240);
  const auto reduce = shape_of(models::Collective::kAllReduce, 1000, 3);
  CHECK(reduce.count == 250);
  CHECK(reduce.bytes == 1000);
  CHECK(shape_of(models::Collective::kAllGather, 8, 3).bytes == 0);
  const auto bytes = shape_of(models::Collective::kGather, 1000, 3, coll::DataType::kInt8);
  CHECK(bytes.count == 320);
  CHECK(bytes.recv_count == 960);
  CHECK(shape_of(models::Collective::kScatter, 1000, 3, coll::DataType::kFloat64).send_count == 120);
  for (const coll::DataType type : {coll::DataType::kInt8, coll::DataType::kFloat64}) {
    CHECK(shape_of(models::Collective::kScatter, smallest_bytes(models::Collective::kScatter, 3, type), 3, type).count *
              size_of(type) ==
          16);
    CHECK(shape_of(models::Collective::kReduce, smallest_bytes(models::Collective::kReduce, 3, type), 3, type).count ==
          1);
  }
}

TEST_CASE("an iteration lasts until its last rank is done; the fastest and the average are of whole iterations") {
  CaseResults board;
  board.iterations = {{.start_ps = 10, .end_ps = 40}, {.start_ps = 100, .end_ps = 110}};
  CHECK(board.total_ps() == 40);
  CHECK(board.average_ps() == 20);
  CHECK(board.fastest_ps() == 10);
  CHECK(CaseResults{}.average_ps() == 0);
}

}  // namespace perf_format_test
