#pragma once
// GpuKernels: the kernels that measure a GPU, as PTX text for any GPU since compute capability 5.2.

namespace meshbed::testbed {

/// `nothing`: what a launch costs by itself. `hold`: until the host has written another number than 0. `tell`: a number
/// for the host. `answer`: each number that the host writes, 1, 2, ..., given back in another word, `rounds` times, or
/// until the host writes the largest one.
/// `chain_atomics`: `count` atomics of every block on a word of its own `stride` bytes further than the one before's,
/// each at an address that its predecessor's result is needed for (`mask` is 0, which only the host knows).
/// `chain_sums`: the same without the atomics. `wait_together`: each block marks its word of `present` and waits for
/// the host's other number than 0; the warps behind its first one wait at a barrier.
inline constexpr const char* kGpuKernels = R"(.version 6.0
.target sm_52
.address_size 64

.visible .entry nothing() { ret; }

.visible .entry hold(.param .u64 word) {
  .reg .pred %p<2>;
  .reg .b32 %r<2>;
  .reg .b64 %d<2>;
  ld.param.u64 %d1, [word];
look:
  ld.volatile.global.u32 %r1, [%d1];
  setp.eq.u32 %p1, %r1, 0;
  @%p1 bra look;
  ret;
}

.visible .entry tell(.param .u64 word, .param .u32 value) {
  .reg .b32 %r<2>;
  .reg .b64 %d<2>;
  ld.param.u64 %d1, [word];
  ld.param.u32 %r1, [value];
  st.volatile.global.u32 [%d1], %r1;
  ret;
}

.visible .entry answer(.param .u64 question, .param .u64 reply, .param .u32 rounds) {
  .reg .pred %p<3>;
  .reg .b32 %r<4>;
  .reg .b64 %d<3>;
  ld.param.u64 %d1, [question];
  ld.param.u64 %d2, [reply];
  ld.param.u32 %r2, [rounds];
  mov.u32 %r1, 1;
next:
  setp.gt.u32 %p1, %r1, %r2;
  @%p1 bra done;
look:
  ld.volatile.global.u32 %r3, [%d1];
  setp.eq.u32 %p1, %r3, 4294967295;
  @%p1 bra done;
  setp.ne.u32 %p2, %r3, %r1;
  @%p2 bra look;
  st.volatile.global.u32 [%d2], %r1;
  add.u32 %r1, %r1, 1;
  bra next;
done:
  ret;
}

.visible .entry chain_atomics(.param .u64 words, .param .u32 stride, .param .u32 count, .param .u32 mask) {
  .reg .pred %p<2>;
  .reg .b32 %r<6>;
  .reg .b64 %d<4>;
  ld.param.u64 %d1, [words];
  ld.param.u32 %r1, [stride];
  ld.param.u32 %r2, [count];
  ld.param.u32 %r3, [mask];
  mov.u32 %r4, %ctaid.x;
  mul.wide.u32 %d2, %r4, %r1;
  add.u64 %d1, %d1, %d2;
next:
  atom.global.add.u32 %r5, [%d1], 1;
  and.b32 %r5, %r5, %r3;
  cvt.u64.u32 %d3, %r5;
  add.u64 %d1, %d1, %d3;
  sub.u32 %r2, %r2, 1;
  setp.ne.u32 %p1, %r2, 0;
  @%p1 bra next;
  ret;
}

.visible .entry chain_sums(.param .u64 words, .param .u32 stride, .param .u32 count, .param .u32 mask) {
  .reg .pred %p<2>;
  .reg .b32 %r<6>;
  .reg .b64 %d<4>;
  ld.param.u64 %d1, [words];
  ld.param.u32 %r1, [stride];
  ld.param.u32 %r2, [count];
  ld.param.u32 %r3, [mask];
  mov.u32 %r4, %ctaid.x;
  mov.u32 %r5, %r4;
  mul.wide.u32 %d2, %r4, %r1;
  add.u64 %d1, %d1, %d2;
next:
  add.u32 %r5, %r5, %r2;
  and.b32 %r5, %r5, %r3;
  cvt.u64.u32 %d3, %r5;
  add.u64 %d1, %d1, %d3;
  sub.u32 %r2, %r2, 1;
  setp.ne.u32 %p1, %r2, 0;
  @%p1 bra next;
  st.global.u32 [%d1], %r5;
  ret;
}

.visible .entry wait_together(.param .u64 present, .param .u64 word) {
  .reg .pred %p<3>;
  .reg .b32 %r<5>;
  .reg .b64 %d<5>;
  ld.param.u64 %d1, [present];
  ld.param.u64 %d2, [word];
  mov.u32 %r1, %tid.x;
  setp.ge.u32 %p1, %r1, 32;
  @%p1 bra together;
  mov.u32 %r2, %ctaid.x;
  mul.wide.u32 %d3, %r2, 4;
  add.u64 %d4, %d1, %d3;
  mov.u32 %r3, 1;
  st.volatile.global.u32 [%d4], %r3;
look:
  ld.volatile.global.u32 %r4, [%d2];
  setp.eq.u32 %p2, %r4, 0;
  @%p2 bra look;
together:
  bar.sync 0;
  ret;
}
)";

}  // namespace meshbed::testbed
