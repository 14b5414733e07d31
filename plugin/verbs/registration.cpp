#include "plugin/verbs/registration.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "plugin/base/check.h"

namespace meshbed::verbs {
namespace {

constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

std::uintptr_t page_bytes() { return static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE)); }

Error registration_error(std::size_t size_bytes, int error_number) {
  std::string text = "cannot register " + std::to_string(size_bytes) + " bytes: " + std::strerror(error_number);
  if (error_number == ENOMEM) text += "; look at the locked-memory limit (ulimit -l) and at the device's max_mr";
  return {.code = ErrorCode::kSystem, .scope = Scope::kRequest, .text = std::move(text), .os_errno = error_number};
}

}  // namespace

Result<Registration*> RegistrationCache::acquire(void* address, std::size_t size_bytes) {
  const std::uintptr_t page = page_bytes();
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const std::uintptr_t start = at & ~(page - 1);
  const std::uintptr_t end = (at + std::max<std::size_t>(size_bytes, 1) + page - 1) & ~(page - 1);
  if (end <= start) return registration_error(size_bytes, EINVAL);

  const std::lock_guard lock(mutex_);
  for (const auto& known : registrations_) {
    if (known->start <= start && end <= known->end) {
      ++known->users;
      return known.get();
    }
  }
  auto mr = register_pages(start, end - start);
  if (!mr) return mr.error();
  auto fresh = std::make_unique<Registration>();
  fresh->start = start;
  fresh->end = end;
  fresh->mr = std::move(*mr);
  fresh->users = 1;
  registrations_.push_back(std::move(fresh));
  return registrations_.back().get();
}

Result<MrPointer> RegistrationCache::register_pages(std::uintptr_t start, std::size_t size_bytes) {
  auto* memory = reinterpret_cast<void*>(start);
  if (relaxed_ordering_) {
    // An optional access bit: devices that do not know it may still refuse it, then the strict one below serves.
    if (ibv_mr* mr = ibv_reg_mr_iova2(pd_, memory, size_bytes, start, kAccess | IBV_ACCESS_RELAXED_ORDERING)) {
      return MrPointer(mr);
    }
  }
  ibv_mr* mr = ibv_reg_mr_iova2(pd_, memory, size_bytes, start, kAccess);
  if (mr == nullptr) return registration_error(size_bytes, errno);
  return MrPointer(mr);
}

void RegistrationCache::release(Registration* registration) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(registrations_.begin(), registrations_.end(),
                                  [&](const auto& known) { return known.get() == registration; });
  MESHBED_CHECK(found != registrations_.end());
  if (--registration->users == 0) registrations_.erase(found);
}

std::size_t RegistrationCache::size() const {
  const std::lock_guard lock(mutex_);
  return registrations_.size();
}

Result<RegisteredBuffer> RegisteredBuffer::create(ibv_pd* pd, std::size_t size_bytes) {
  void* memory = nullptr;
  if (::posix_memalign(&memory, page_bytes(), size_bytes) != 0) return registration_error(size_bytes, ENOMEM);
  std::memset(memory, 0, size_bytes);
  RegisteredBuffer buffer;
  buffer.memory_.reset(memory);
  ibv_mr* mr = ibv_reg_mr_iova2(pd, memory, size_bytes, reinterpret_cast<std::uintptr_t>(memory), kAccess);
  if (mr == nullptr) return registration_error(size_bytes, errno);
  buffer.mr_.reset(mr);
  return buffer;
}

}  // namespace meshbed::verbs
