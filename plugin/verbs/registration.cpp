#include "plugin/verbs/registration.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "plugin/base/check.h"
#include "plugin/base/counted.h"

namespace meshbed::verbs {
namespace {

constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

std::uintptr_t page_bytes() { return static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE)); }

Error registration_error(std::size_t size_bytes, int error_number) {
  std::string text = "cannot register " + counted(size_bytes, "byte") + ": " + std::strerror(error_number);
  if (error_number == ENOMEM) text += "; look at the locked-memory limit (ulimit -l) and at the device's max_mr";
  return {.code = ErrorCode::kSystem, .scope = Scope::kRequest, .text = std::move(text), .os_errno = error_number};
}

}  // namespace

Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}

Descriptor Descriptor::duplicate_of(int number) {
  Descriptor copy;
  copy.number_ = ::fcntl(number, F_DUPFD_CLOEXEC, 0);
  return copy;
}

Registration* RegistrationCache::share(std::uintptr_t start, std::uintptr_t end, bool of_dma_buf) {
  for (const auto& known : registrations_) {
    if (known->of_dma_buf != of_dma_buf || known->start > start || end > known->end) continue;
    ++known->users;
    return known.get();
  }
  return nullptr;
}

Result<Registration*> RegistrationCache::acquire(void* address, std::size_t size_bytes) {
  const std::uintptr_t page = page_bytes();
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const std::uintptr_t start = at & ~(page - 1);
  const std::uintptr_t end = (at + std::max<std::size_t>(size_bytes, 1) + page - 1) & ~(page - 1);
  if (end <= start) return registration_error(size_bytes, EINVAL);

  const std::lock_guard lock(mutex_);
  if (Registration* known = share(start, end, false)) return known;
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

Result<Registration*> RegistrationCache::acquire(void* address, std::size_t size_bytes, const DmaBuf& source,
                                                 bool keep) {
  // As it is given: the kernel wants address and offset at the same place of a page (uverbs REG_DMABUF_MR), and what
  // lies before the offset is not ours to register.
  const auto start = reinterpret_cast<std::uintptr_t>(address);
  const std::uintptr_t end = start + size_bytes;
  if (end <= start) return registration_error(size_bytes, EINVAL);

  const std::lock_guard lock(mutex_);
  if (Registration* known = share(start, end, true)) return known;
  auto mr = register_dma_buf(start, size_bytes, source);
  if (!mr) return mr.error();
  auto fresh = std::make_unique<Registration>();
  fresh->start = start;
  fresh->end = end;
  fresh->of_dma_buf = true;
  fresh->offset_bytes = source.offset_bytes;
  if (keep) fresh->dma_buf = Descriptor::duplicate_of(source.descriptor);
  fresh->mr = std::move(*mr);
  fresh->users = 1;
  registrations_.push_back(std::move(fresh));
  return registrations_.back().get();
}

Result<MrPointer> RegistrationCache::register_dma_buf(std::uintptr_t start, std::size_t size_bytes,
                                                      const DmaBuf& source) {
  const auto attempt = [&](int access) {
    return MrPointer(ibv_reg_dmabuf_mr(pd_, source.offset_bytes, size_bytes, start, source.descriptor, access));
  };
  MrPointer mr;
  if (relaxed_ordering_) mr = attempt(kAccess | IBV_ACCESS_RELAXED_ORDERING);
  if (mr == nullptr) mr = attempt(kAccess);
  if (mr == nullptr) {
    Error error = registration_error(size_bytes, errno);
    error.text += "; they are " + counted(source.offset_bytes, "byte") + " into the dma-buf of descriptor " +
                  std::to_string(source.descriptor);
    return error;
  }
  return mr;
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

bool knows_dma_buf(ibv_pd* pd) {
  // Linux looks at the driver before it looks at the descriptor (uverbs REG_DMABUF_MR, ib_umem_dmabuf_get): EOPNOTSUPP
  // or EPROTONOSUPPORT where the driver or the kernel does not know, EBADF where it does.
  errno = 0;
  const MrPointer accident(ibv_reg_dmabuf_mr(pd, 0, 0, 0, -1, 0));
  return accident == nullptr && errno == EBADF;
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
