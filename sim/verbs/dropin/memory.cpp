// Protection domains and memory regions: ibv_alloc_pd(3), ibv_reg_mr(3), ibv_reg_dmabuf_mr (same page).

#include "sim/verbs/dropin/objects.h"
#include "sim/verbs/dropin/table.h"

namespace meshbed::dropin {
namespace {

/// Optional access flags are taken or left (verbs.h); of them the back end knows one.
unsigned known(unsigned access) {
  return access & ~(unsigned{IBV_ACCESS_OPTIONAL_RANGE} ^ unsigned{IBV_ACCESS_RELAXED_ORDERING});
}

ibv_mr* reg_mr(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova, unsigned access) {
  std::uint32_t lkey = 0, rkey = 0;
  if (const int error = backend().reg_mr(pd->handle, reinterpret_cast<std::uint64_t>(address), length, iova,
                                         known(access), &lkey, &rkey)) {
    return null_with<ibv_mr>(error);
  }
  return new ibv_mr{
      .context = pd->context, .pd = pd, .addr = address, .length = length, .handle = lkey, .lkey = lkey, .rkey = rkey};
}

}  // namespace
}  // namespace meshbed::dropin

using namespace meshbed::dropin;

MESHBED_VERB ibv_pd* ibv_alloc_pd(ibv_context* context) {
  std::uint32_t handle = 0;
  if (const int error = backend().alloc_pd(context_of(context).handle, &handle)) return null_with<ibv_pd>(error);
  return new ibv_pd{.context = context, .handle = handle};
}

MESHBED_VERB int ibv_dealloc_pd(ibv_pd* pd) {
  if (const int error = backend().dealloc_pd(pd->handle)) return error;
  delete pd;
  return 0;
}

MESHBED_VERB ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, std::size_t length, int access) {
  return reg_mr(pd, address, length, reinterpret_cast<std::uint64_t>(address), static_cast<unsigned>(access));
}

MESHBED_VERB ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova, int access) {
  return reg_mr(pd, address, length, iova, static_cast<unsigned>(access));
}

MESHBED_VERB ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova,
                                      unsigned access) {
  return reg_mr(pd, address, length, iova, access);
}

MESHBED_VERB ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, std::uint64_t offset, std::size_t length, std::uint64_t iova, int fd,
                                       int access) {
  std::uint32_t lkey = 0, rkey = 0;
  if (const int error = backend().reg_dmabuf_mr(pd->handle, offset, length, iova, fd,
                                                known(static_cast<unsigned>(access)), &lkey, &rkey)) {
    return null_with<ibv_mr>(error);
  }
  // As rdma-core fills it (cmd_mr.c): there is no address.
  return new ibv_mr{.context = pd->context,
                    .pd = pd,
                    .addr = reinterpret_cast<void*>(offset),
                    .length = length,
                    .handle = lkey,
                    .lkey = lkey,
                    .rkey = rkey};
}

MESHBED_VERB int ibv_dereg_mr(ibv_mr* mr) {
  if (const int error = backend().dereg_mr(mr->lkey)) return error;
  delete mr;
  return 0;
}
