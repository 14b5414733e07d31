// The program of each rank of `nccl compare`, for NVIDIA's NCCL and for the drop-in: three calls of each operation and
// size on GPU memory. A line of JSON for each has the third one's time, from the call to the end of its stream, and the
// number of wrong elements in its result.
//
//   meshbed-nccl-sweep.so OPERATION:BYTES ...
//
// BYTES as nccl-tests counts them: the larger of a rank's input and output, of float32.

#include <nccl.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

// The part of cuda.h that is used here, so that it builds where no toolkit is.
extern "C" {
int cuInit(unsigned flags);
int cuDeviceGet(int* device, int ordinal);
int cuDevicePrimaryCtxRetain(void** context, int device);
int cuCtxSetCurrent(void* context);
int cuCtxSynchronize();
int cuMemAlloc_v2(unsigned long long* address, std::size_t bytes);
int cuMemsetD32_v2(unsigned long long address, unsigned value, std::size_t count);
int cuMemcpyHtoD_v2(unsigned long long target, const void* source, std::size_t bytes);
int cuMemcpyDtoH_v2(void* target, unsigned long long source, std::size_t bytes);
int cuStreamCreate(void** stream, unsigned flags);
int cuStreamSynchronize(void* stream);
}

namespace {

constexpr int kCalls = 3;  // the first one makes connections
constexpr unsigned kNonBlocking = 1;

struct Failure {
  std::string text;
};

void require_cuda(int result, const char* call) {
  if (result != 0) throw Failure{std::string(call) + " returned error " + std::to_string(result)};
}

void require_nccl(ncclResult_t result, const char* call) {
  if (result == ncclSuccess) return;
  throw Failure{std::string(call) + ": " + ncclGetErrorString(result) + " (" + ncclGetLastError(nullptr) + ")"};
}

std::size_t number_in(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) throw Failure{std::string(name) + " is not set: start this by `meshbed nccl compare`"};
  return std::strtoull(text, nullptr, 10);
}

/// Element `index` of what a rank gives. Their sums are exact in a float for up to 182 ranks.
float given(std::size_t rank, std::size_t index) {
  return static_cast<float>(index % 1000 + 1) * static_cast<float>(rank + 1);
}

struct Row {
  std::string operation;
  std::size_t bytes = 0;
};

Row row_of(const std::string& word) {
  const std::size_t colon = word.find(':');
  if (colon == std::string::npos) throw Failure{word + " is not OPERATION:BYTES"};
  return {word.substr(0, colon), std::strtoull(word.c_str() + colon + 1, nullptr, 10)};
}

class Rank {
 public:
  explicit Rank(std::size_t most_bytes)
      : rank_(number_in("RANK")), ranks_(number_in("WORLD_SIZE")), host_(most_bytes / sizeof(float)) {
    int device = 0;
    void* context = nullptr;
    require_cuda(cuInit(0), "cuInit");
    require_cuda(cuDeviceGet(&device, 0), "cuDeviceGet");
    require_cuda(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    require_cuda(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    require_cuda(cuStreamCreate(&stream_, kNonBlocking), "cuStreamCreate");
    require_cuda(cuMemAlloc_v2(&given_, most_bytes), "cuMemAlloc");
    require_cuda(cuMemAlloc_v2(&got_, most_bytes), "cuMemAlloc");
    for (std::size_t index = 0; index < host_.size(); ++index) host_[index] = given(rank_, index);
    require_cuda(cuMemcpyHtoD_v2(given_, host_.data(), most_bytes), "cuMemcpyHtoD");
    ncclUniqueId id;
    require_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId");  // by NCCL_COMM_ID the same on each rank
    require_nccl(ncclCommInitRank(&comm_, static_cast<int>(ranks_), id, static_cast<int>(rank_)), "ncclCommInitRank");
  }

  /// Returns how many numbers are wrong.
  std::size_t run(const Row& row) {
    std::int64_t time_ns = 0;
    for (int call = 0; call < kCalls; ++call) {
      require_cuda(cuMemsetD32_v2(got_, 0, row.bytes / sizeof(float)), "cuMemsetD32");
      require_cuda(cuCtxSynchronize(), "cuCtxSynchronize");  // that one comes back before it has ended
      const std::int64_t began_ns = now_ns();
      require_nccl(start(row), row.operation.c_str());
      require_cuda(cuStreamSynchronize(stream_), "cuStreamSynchronize");
      time_ns = now_ns() - began_ns;
    }
    const std::size_t wrong = check(row);
    std::printf("{\"operation\": \"%s\", \"bytes\": %zu, \"ns\": %lld, \"wrong\": %zu}\n", row.operation.c_str(),
                row.bytes, static_cast<long long>(time_ns), wrong);
    std::fflush(stdout);
    return wrong;
  }

  void close() { require_nccl(ncclCommDestroy(comm_), "ncclCommDestroy"); }

 private:
  static std::int64_t now_ns() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  }

  /// Elements of one rank's part, where each rank has one.
  std::size_t block(const Row& row) const { return row.bytes / sizeof(float) / ranks_; }

  ncclResult_t start(const Row& row) const {
    const auto* from = reinterpret_cast<const void*>(given_);
    auto* to = reinterpret_cast<void*>(got_);
    auto* stream = static_cast<cudaStream_t>(stream_);
    const std::size_t count = row.bytes / sizeof(float);
    if (row.operation == "all_reduce") return ncclAllReduce(from, to, count, ncclFloat, ncclSum, comm_, stream);
    if (row.operation == "all_gather") return ncclAllGather(from, to, block(row), ncclFloat, comm_, stream);
    if (row.operation == "reduce_scatter") {
      return ncclReduceScatter(from, to, block(row), ncclFloat, ncclSum, comm_, stream);
    }
    if (row.operation == "broadcast") return ncclBroadcast(from, to, count, ncclFloat, 0, comm_, stream);
    throw Failure{row.operation + " is none of all_reduce, all_gather, reduce_scatter and broadcast"};
  }

  float expected(const Row& row, std::size_t index) const {
    // given() is proportional to rank + 1.
    const float all = static_cast<float>(ranks_ * (ranks_ + 1)) / 2;
    if (row.operation == "all_reduce") return given(0, index) * all;
    if (row.operation == "all_gather") return given(index / block(row), index % block(row));
    if (row.operation == "reduce_scatter") return given(0, rank_ * block(row) + index) * all;
    return given(0, index);
  }

  std::size_t check(const Row& row) {
    const std::size_t count = row.operation == "reduce_scatter" ? block(row) : row.bytes / sizeof(float);
    require_cuda(cuMemcpyDtoH_v2(host_.data(), got_, count * sizeof(float)), "cuMemcpyDtoH");
    std::size_t wrong = 0;
    for (std::size_t index = 0; index < count; ++index) {
      if (host_[index] == expected(row, index)) continue;
      if (wrong++ == 0) {
        std::printf("%s of %zu bytes: element %zu is %g instead of %g\n", row.operation.c_str(), row.bytes, index,
                    static_cast<double>(host_[index]), static_cast<double>(expected(row, index)));
      }
    }
    return wrong;
  }

  std::size_t rank_, ranks_;
  std::vector<float> host_;
  void* stream_ = nullptr;
  unsigned long long given_ = 0, got_ = 0;
  ncclComm_t comm_ = nullptr;
};

}  // namespace

int main(int count, char** words) {
  try {
    std::vector<Row> rows;
    std::size_t most_bytes = sizeof(float), wrong = 0;
    for (int index = 1; index < count; ++index) {
      rows.push_back(row_of(words[index]));
      if (rows.back().bytes > most_bytes) most_bytes = rows.back().bytes;
    }
    Rank rank(most_bytes);
    for (const Row& row : rows) wrong += rank.run(row);
    rank.close();
    return wrong == 0 ? 0 : 1;
  } catch (const Failure& failure) {
    std::printf("%s\n", failure.text.c_str());
    return 1;
  }
}
