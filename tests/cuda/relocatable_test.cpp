// Programs with relocatable device code (nvcc -rdc=true), registered as nvcc's code for the host does it: what was
// linked in advance, and the containers of the parts.
#include "sim/cuda/image/relocatable.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/cuda/image/fat_binary.h"
#include "tests/cuda/fat_container.h"
#include "tests/cuda/gpus.h"

extern "C" int cudaFuncGetAttributes(void* attributes, const void* function);

namespace relocatable_test {

using namespace meshbed;
using namespace meshbed::test;

namespace {

const std::string kFirst = R"(.version 7.0
.target sm_70
.address_size 64
.extern .func (.param .b32 out) twice (.param .b32 in);
.extern .global .align 4 .u32 bias;
.global .align 4 .u32 own = 100;
.visible .entry first(.param .u64 to)
{
  .reg .b32 %r<5>;
  .reg .b64 %d<2>;
  ld.param.u64 %d1, [to];
  mov.u32 %r1, 21;
  {
  .param .b32 a;
  .param .b32 b;
  st.param.b32 [a], %r1;
  call.uni (b), twice, (a);
  ld.param.b32 %r2, [b];
  }
  ld.global.u32 %r3, [bias];
  ld.global.u32 %r4, [own];
  add.u32 %r2, %r2, %r3;
  add.u32 %r2, %r2, %r4;
  st.global.u32 [%d1], %r2;
  ret;
}
)";

const std::string kSecond = R"(.version 7.0
.target sm_70
.address_size 64
.visible .global .align 4 .u32 bias = 5;
.global .align 4 .u32 own = 1000;
.visible .func (.param .b32 out) twice (.param .b32 in)
{
  .reg .b32 %r<2>;
  ld.param.b32 %r1, [in];
  shl.b32 %r1, %r1, 1;
  st.param.b32 [out], %r1;
  ret;
}
.visible .entry second(.param .u64 to)
{
  .reg .b32 %r<3>;
  .reg .b64 %d<2>;
  ld.param.u64 %d1, [to];
  ld.global.u32 %r1, [own];
  ld.global.u32 %r2, [%d1];
  add.u32 %r2, %r2, %r1;
  st.global.u32 [%d1], %r2;
  ret;
}
)";

FatPiece ptx(const std::string& text, unsigned architecture = 70, unsigned flags = 0x8011) {
  return {.architecture = architecture, .text = text, .flags = flags};
}
FatPiece machine_code(unsigned architecture) {
  return {.is_ptx = false, .architecture = architecture, .text = "code", .flags = 0x11};
}

/// Registered as long as it lives; its kernels are `first` and `second`.
class Program {
 public:
  explicit Program(const std::vector<std::vector<FatPiece>>& parts, const std::vector<FatPiece>& linked = {})
      : linked_(fat_container(linked)) {
    for (const auto& part : parts) containers_.push_back(fat_container(part));
    for (const std::string& container : containers_) parts_.push_back(container.data());
    parts_.push_back(nullptr);
    wrapper_ = {.magic = sim::cuda::kWrapperMagic,
                .version = sim::cuda::Wrapper::kOfParts,
                .container = linked_.data(),
                .parts = parts_.data()};
    void* const image = &wrapper_;
    binary_ = __cudaRegisterFatBinary(image);
    for (const std::size_t index : {0U, 1U}) {
      __cudaRegisterFunction(binary_, &keys_[index], nullptr, index == 0 ? "first" : "second", -1, nullptr, nullptr,
                             nullptr, nullptr, nullptr);
    }
    __cudaRegisterVar(binary_, &keys_[2], nullptr, "bias", 0, 4, 0, 0);
    __cudaRegisterFatBinaryEnd(binary_);
  }
  ~Program() { __cudaUnregisterFatBinary(binary_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  int launch(std::size_t kernel, void* to) const {
    void* arguments[] = {&to};
    return cudaLaunchKernel(&keys_[kernel], {1, 1, 1}, {1, 1, 1}, arguments, 0, nullptr);
  }
  int ask_about(std::size_t kernel) const {
    std::array<std::uint64_t, 32> attributes{};  // at least as large as cudaFuncAttributes
    return cudaFuncGetAttributes(attributes.data(), &keys_[kernel]);
  }
  const char* bias() const { return &keys_[2]; }

 private:
  std::string linked_;
  std::vector<std::string> containers_;
  std::vector<const void*> parts_;
  sim::cuda::Wrapper wrapper_;
  std::array<char, 3> keys_{};  // whose addresses name the kernels and the variable
  void** binary_ = nullptr;
};

/// Both kernels launched, and what they left.
unsigned left_by(const Program& program) {
  void* to = nullptr;
  CHECK(cudaMalloc(&to, 4) == 0);
  CHECK(program.launch(0, to) == 0);
  CHECK(program.launch(1, to) == 0);
  constexpr int kToHost = 2;
  unsigned number = 0;
  CHECK(cudaMemcpy(&number, to, 4, kToHost) == 0);
  return number;
}

/// What is said when its first kernel is launched, twice; what that answers.
std::string refused(const std::vector<std::vector<FatPiece>>& parts, int code, std::size_t kernel = 0) {
  return run_gpus({}, [&] {
    const Program program(parts);
    CHECK(program.launch(kernel, nullptr) == code);
    CHECK(program.launch(kernel, nullptr) == code);
  });
}

bool is_one_line(const std::string& text) { return text.find('\n') == text.size() - 1; }

constexpr int kNoKernelImage = 209, kInvalidPtx = 218, kInvalidDeviceFunction = 98;

}  // namespace

TEST_CASE("the PTX of a program's parts is linked, whatever was linked in advance") {
  const std::vector<std::vector<FatPiece>> parts{{machine_code(90), ptx(kFirst)}, {ptx(kSecond, 80, 0x11)}};
  for (const std::vector<FatPiece>& linked : {std::vector<FatPiece>{}, {machine_code(90)}}) {
    const std::string said = run_gpus({}, [&] {
      const Program program(parts, linked);
      CHECK(left_by(program) == 42 + 5 + 100 + 1000);
      constexpr int kToDevice = 1;
      const unsigned six = 6;
      CHECK(cudaMemcpyToSymbol(program.bias(), &six, 4, 0, kToDevice) == 0);
      CHECK(left_by(program) == 42 + 6 + 100 + 1000);
    });
    CHECK(said == "");
  }
}

TEST_CASE("what was linked in advance is taken where it has PTX") {
  const std::string whole = kSecond + kFirst.substr(kFirst.find(".visible .entry"));
  run_gpus({}, [&] {
    const Program program({{machine_code(90)}}, {ptx(whole)});
    CHECK(left_by(program) == 42 + 5 + 1000 + 1000);
  });
}

TEST_CASE("the CUDA device runtime's own part is left out: no kernel here calls it") {
  const std::string runtime =
      ".version 7.0\n.target sm_70\n.address_size 64\n.visible .global .u32 __CNPRT_VERSION_NUMBER__ = 6000;\n"
      ".extern .func nowhere();\n";
  const std::string said = run_gpus({}, [&] {
    const Program program({{ptx(kFirst)}, {ptx(kSecond)}, {ptx(runtime)}});
    CHECK(left_by(program) == 42 + 5 + 100 + 1000);
  });
  CHECK(said == "");
}

TEST_CASE("code in parts that is not complete is refused: what is missing, and which options of nvcc bring it") {
  const std::string said = refused({{ptx(kFirst)}, {machine_code(90)}}, kInvalidPtx);
  CAPTURE(said);
  CHECK(is_one_line(said));
  CHECK(
      said.find("relocatable device code (nvcc -rdc=true) that is not complete: no part's PTX defines twice, bias;") !=
      said.npos);
  CHECK(said.find("-gencode arch=compute_90,code=compute_90, or without -rdc=true") != said.npos);

  const std::string launches =
      ".version 7.0\n.target sm_70\n.address_size 64\n.extern .func (.param .b32 out) __cudaCDP2LaunchDeviceV2();\n"
      ".visible .entry first() { ret; }\n";
  const std::string dynamic = refused({{ptx(launches)}, {machine_code(90)}}, kInvalidPtx);
  CAPTURE(dynamic);
  CHECK(is_one_line(dynamic));
  CHECK(dynamic.find("defines __cudaCDP2LaunchDeviceV2; the CUDA runtime in kernels (dynamic parallelism) is not "
                     "implemented") != dynamic.npos);
}

TEST_CASE("parts without any PTX, and those that are none, are said in one line") {
  const std::string none = refused({{machine_code(90)}, {ptx(kSecond, 100)}}, kNoKernelImage);
  CAPTURE(none);
  CHECK(is_one_line(none));
  CHECK(none.find("no part of it has PTX for a device of compute capability 9.0") != none.npos);
  CHECK(none.find("-rdc=true") != none.npos);

  const std::string lost = refused({{machine_code(90)}, {ptx(kSecond)}}, kInvalidDeviceFunction);
  CAPTURE(lost);
  CHECK(is_one_line(lost));
  CHECK(lost.find("kernel first: the program has no PTX of it for this device") != lost.npos);

  const std::string broken = refused({{ptx(kSecond)}, {ptx(std::string(3000, 'z'), 70, 0x4000)}}, kInvalidPtx);
  CHECK(broken.find("part 2 of 2:1: ") != broken.npos);
}

TEST_CASE("a question about a kernel without code for the device warns of nothing; its launch warns once") {
  for (const std::vector<std::vector<FatPiece>>& parts :
       {std::vector<std::vector<FatPiece>>{{machine_code(80)}}, {{machine_code(80)}, {machine_code(100)}}}) {
    const std::string asked = run_gpus({}, [&] {
      const Program program(parts);
      CHECK(program.ask_about(0) == kNoKernelImage);
      CHECK(program.ask_about(1) == kNoKernelImage);
    });
    CHECK(asked == "");
    const std::string launched = run_gpus({}, [&] {
      const Program program(parts);
      CHECK(program.ask_about(0) == kNoKernelImage);
      CHECK(program.launch(0, nullptr) == kNoKernelImage);
      CHECK(program.launch(1, nullptr) == kNoKernelImage);
      CHECK(program.ask_about(1) == kNoKernelImage);
    });
    CAPTURE(launched);
    CHECK(is_one_line(launched));
    CHECK(launched.find("no part of it has PTX for a device of compute capability 9.0") != launched.npos);
  }
}

}  // namespace relocatable_test
