#include "meshbed/result.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <utility>

#include "testbed/library/result_state.h"

namespace meshbed {

MappedMessages::MappedMessages(int descriptor) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) throw std::runtime_error(std::string("fstat: ") + std::strerror(errno));
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ == 0) return;
  void* const mapped = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (mapped == MAP_FAILED) throw std::runtime_error(std::string("mmap of the messages: ") + std::strerror(errno));
  data_ = static_cast<const std::byte*>(mapped);
}

MappedMessages::~MappedMessages() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

RunResult::RunResult(std::shared_ptr<const State> state) : state_(std::move(state)) {}

bool RunResult::passed() const { return state_->passed; }
std::string RunResult::failure() const { return state_->failure; }
const std::string& RunResult::digest() const { return state_->digest; }
double RunResult::time_s() const { return state_->time_s; }
double RunResult::algbw_GBps() const { return state_->algbw_GBps; }
double RunResult::busbw_GBps() const { return state_->busbw_GBps; }
double RunResult::bound_s() const { return state_->bound_s; }
double RunResult::over_bound() const { return state_->over_bound; }
std::uint64_t RunResult::wrong() const { return state_->wrong; }
std::uint64_t RunResult::checked() const { return state_->checked; }
std::uint64_t RunResult::message_count() const { return state_->message_count; }
const std::vector<Proof>& RunResult::proofs() const { return state_->proofs; }
const std::vector<Proof>& RunResult::expectations() const { return state_->expectations; }
const std::vector<FailedRank>& RunResult::errors() const { return state_->errors; }
const std::string& RunResult::output() const { return state_->output; }
const std::vector<MessageColumn>& RunResult::messages() const { return state_->messages; }
const std::string& RunResult::json() const { return state_->json; }

}  // namespace meshbed
