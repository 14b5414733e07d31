#pragma once
// A kernel of one thread that polls.

namespace meshbed::test {

/// scan: looks at `count` words in turn until one is not 0, and writes that one into `answer`.
inline constexpr char kScanKernel[] = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry scan(.param .u64 words, .param .u64 count, .param .u64 answer) {
  .reg .pred %p<3>;
  .reg .b32 %r<2>;
  .reg .b64 %d<7>;
  ld.param.u64 %d1, [words];
  ld.param.u64 %d5, [count];
  ld.param.u64 %d4, [answer];
again:
  mov.u64 %d2, 0;
next:
  shl.b64 %d6, %d2, 2;
  add.u64 %d3, %d1, %d6;
  ld.acquire.sys.u32 %r1, [%d3];
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra found;
  add.u64 %d2, %d2, 1;
  setp.lt.u64 %p2, %d2, %d5;
  @%p2 bra next;
  bra again;
found:
  st.release.sys.u32 [%d4], %r1;
  ret;
}
)";

}  // namespace meshbed::test
