#pragma once
// Loan: pinned memory that operations work in instead of a GPU's, and what is copied there before them and back behind
// them. Memory that messages are in itself is not lent. Memories that overlap (in place, one lies within the other) do
// so in the pinned memory, too.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "plugin/base/result.h"
#include "plugin/coll/run/communicator.h"
#include "plugin/coll/run/gpu.h"
#include "plugin/coll/run/pinned_pool.h"
#include "plugin/cuda/driver.h"

namespace meshbed::coll {

class Loan {
 public:
  /// Of those operations that stand in streams, or of the others. The rest stay as they are, and so do those whose
  /// memory the host can follow.
  static Result<Loan> plan(Gpu& gpu, std::span<const Operation> operations, bool in_streams);

  /// Nothing is to be lent.
  bool is_empty() const { return size_bytes_ == 0; }
  std::uint64_t size_bytes() const { return size_bytes_; }
  /// Of some of the GPU memory.
  cuda::CUcontext context() const { return parts_.front().context; }
  /// It is there, of that size at least: what follows is of it.
  void take(const PinnedBlock& staging);
  /// To be copied before them as well, without pinned memory.
  void add(const std::vector<GpuCopy>& copies) { in_.insert(in_.end(), copies.begin(), copies.end()); }

  const std::vector<Operation>& operations() const { return operations_; }
  std::vector<Operation>& operations() { return operations_; }
  const std::vector<GpuCopy>& in() const { return in_; }
  const std::vector<GpuCopy>& out() const { return out_; }
  /// Of both.
  std::uint64_t copied_bytes() const;

 private:
  /// GPU memory that is one piece, and where it stands in the staging memory.
  struct Part {
    cuda::CUcontext context = nullptr;
    char* begin = nullptr;
    std::uint64_t size_bytes = 0, offset = 0;
    std::size_t named = 0;  // where in the order of the operations
  };
  void join();
  void place();
  /// nullptr: none has that byte.
  const Part* behind(const void* data) const;

  std::vector<Operation> operations_;
  bool in_streams_ = false;
  std::vector<Part> parts_;  // by address
  std::uint64_t size_bytes_ = 0;
  std::vector<GpuCopy> in_, out_;
};

}  // namespace meshbed::coll
