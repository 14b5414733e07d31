// CUDA arrays, textures and surfaces: what a fetch reads, by the tables of the CUDA C++ Programming Guide.
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "tests/cuda/gpus.h"

namespace texture_test {

using namespace meshbed::test;
namespace cuda = meshbed::sim::cuda;

extern "C" {
cudaError_t cudaMalloc3DArray(cuda::Array** array, const cuda::cudaChannelFormatDesc* format, cuda::cudaExtent extent,
                              unsigned flags);
cudaError_t cudaMallocArray(cuda::Array** array, const cuda::cudaChannelFormatDesc* format, std::size_t width,
                            std::size_t height, unsigned flags);
cudaError_t cudaFreeArray(cuda::Array* array);
cudaError_t cudaMemcpy2DToArray(cuda::Array* array, std::size_t x, std::size_t y, const void* source, std::size_t pitch,
                                std::size_t width, std::size_t height, int kind);
cudaError_t cudaMemcpy2DFromArray(void* target, std::size_t pitch, const cuda::Array* array, std::size_t x,
                                  std::size_t y, std::size_t width, std::size_t height, int kind);
cudaError_t cudaMemcpy3D(const cuda::cudaMemcpy3DParms* copy);
cudaError_t cudaCreateTextureObject(unsigned long long* texture, const cuda::cudaResourceDesc* resource,
                                    const cuda::cudaTextureDesc* how, const void* view);
cudaError_t cudaDestroyTextureObject(unsigned long long texture);
cudaError_t cudaCreateSurfaceObject(unsigned long long* surface, const cuda::cudaResourceDesc* resource);
}

namespace {

constexpr int kToDevice = 1, kToHost = 2;
constexpr cuda::cudaChannelFormatDesc kFloats{32, 0, 0, 0, 2}, kBytes{8, 8, 8, 8, 1};

/// Thread i reads at coordinates in[3 i ...] and writes four words at out[4 i ...].
std::string kernel(const std::string& name, const std::string& fetch) {
  return ".visible .entry " + name + R"((.param .u64 t, .param .u64 in, .param .u64 out)
{
  .reg .b32 %r<9>;
  .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [t];
  ld.param.u64 %rd2, [in];
  ld.param.u64 %rd3, [out];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd4, %r1, 12;
  add.s64 %rd2, %rd2, %rd4;
  mul.wide.u32 %rd4, %r1, 16;
  add.s64 %rd3, %rd3, %rd4;
  ld.global.b32 %r2, [%rd2];
  ld.global.b32 %r3, [%rd2+4];
  ld.global.b32 %r4, [%rd2+8];
  )" + fetch +
         R"(
  st.global.v4.b32 [%rd3], {%r5, %r6, %r7, %r8};
  ret;
}
)";
}

const std::string kText = ".version 8.0\n.target sm_70\n.address_size 64\n" +
                          kernel("flat", "tex.2d.v4.f32.f32 {%r5, %r6, %r7, %r8}, [%rd1, {%r2, %r3}];") +
                          kernel("whole", "tex.1d.v4.u32.s32 {%r5, %r6, %r7, %r8}, [%rd1, {%r2}];") +
                          kernel("layers", "tex.a2d.v4.f32.f32 {%r5, %r6, %r7, %r8}, [%rd1, {%r2, %r3, %r4, %r4}];") +
                          kernel("cube", "tex.cube.v4.f32.f32 {%r5, %r6, %r7, %r8}, [%rd1, {%r2, %r3, %r4, %r4}];") +
                          kernel("paint",
                                 "sust.b.2d.b32.trap [%rd1, {%r2, %r3}], {%r4}; mov.b32 %r5, 0; "
                                 "mov.b32 %r6, 0; mov.b32 %r7, 0; mov.b32 %r8, 0;") +
                          kernel("wide",
                                 "sust.b.2d.v4.b32.clamp [%rd1, {%r2, %r3}], {%r4, %r4, %r4, %r4}; mov.b32 %r5, 0; "
                                 "mov.b32 %r6, 0; mov.b32 %r7, 0; mov.b32 %r8, 0;");

template <typename T>
using Rows = std::vector<std::array<T, 3>>;

/// What `name` leaves for each of the coordinates.
template <typename R, typename T>
std::vector<std::array<R, 4>> fetched(const std::string& name, unsigned long long texture, const Rows<T>& at) {
  CUdeviceptr in = allocate(at.size() * 12), out = allocate(at.size() * 16);
  CHECK(cuMemcpyHtoD_v2(in, at.data(), at.size() * 12) == 0);
  void* arguments[] = {&texture, &in, &out};
  const CUfunction function = find_function(kText.c_str(), name.c_str());
  CHECK(cuLaunchKernel(function, 1, 1, 1, static_cast<unsigned>(at.size()), 1, 1, 0, nullptr, arguments, nullptr) == 0);
  std::vector<std::array<R, 4>> values(at.size());
  CHECK(cuMemcpyDtoH_v2(values.data(), out, at.size() * 16) == 0);
  return values;
}

std::vector<float> numbers(std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t index = 0; index < count; ++index) values[index] = static_cast<float>(index);
  return values;
}

/// 4 x 3 floats 0, 1 ... 11.
cuda::Array* small_array() {
  cuda::Array* array = nullptr;
  CHECK(texture_test::cudaMallocArray(&array, &kFloats, 4, 3, 0) == 0);
  CHECK(texture_test::cudaMemcpy2DToArray(array, 0, 0, numbers(12).data(), 16, 16, 3, kToDevice) == 0);
  return array;
}

unsigned long long texture_of(cuda::Array* array, const cuda::cudaTextureDesc& how) {
  cuda::cudaResourceDesc resource{};
  resource.of.array = array;
  unsigned long long texture = 0;
  CHECK(texture_test::cudaCreateTextureObject(&texture, &resource, &how, nullptr) == 0);
  return texture;
}

}  // namespace

TEST_CASE("the nearest texel; beyond the edge as the address mode says") {
  const std::string log = run_gpus({}, [] {
    const Gpu gpu;
    cuda::Array* array = small_array();
    const Rows<float> at{{0, 0}, {3.9F, 2.9F}, {1.5F, 1}, {-5, 1}, {9, 1}};
    cuda::cudaTextureDesc how{.address_mode = {1, 1, 1}};
    const auto clamped = fetched<float>("flat", texture_of(array, how), at);
    const float expected[] = {0, 11, 5, 4, 7};
    for (std::size_t index = 0; index < at.size(); ++index) CHECK(clamped[index][0] == expected[index]);
    how.address_mode[0] = 3;
    how.border[0] = 77;
    CHECK(fetched<float>("flat", texture_of(array, how), at)[3][0] == 77);
    // With normalized coordinates: 1.25 wraps to 0.25, and -0.1 is mirrored to 0.1.
    how = {.address_mode = {0, 1, 1}, .normalized_coordinates = 1};
    CHECK(fetched<float>("flat", texture_of(array, how), Rows<float>{{1.3F, 0}})[0][0] == 1);
    how.address_mode[0] = 2;
    CHECK(fetched<float>("flat", texture_of(array, how), Rows<float>{{-0.3F, 0}, {1.3F, 0}})[0][0] == 1);
    CHECK(fetched<float>("flat", texture_of(array, how), Rows<float>{{1.3F, 0}})[0][0] == 2);
    CHECK(texture_test::cudaFreeArray(array) == 0);
    CHECK(texture_test::cudaFreeArray(array) == 1);
  });
  CHECK(log.empty());
}

TEST_CASE("a linear fetch lies between the centres of texels") {
  run_gpus({}, [] {
    const Gpu gpu;
    const cuda::cudaTextureDesc how{.address_mode = {1, 1, 1}, .filter = 1};
    const Rows<float> at{{0.5F, 0.5F}, {1, 0.5F}, {1, 1}, {0, 0}, {1.75F, 1.5F}};
    const auto found = fetched<float>("flat", texture_of(small_array(), how), at);
    const float expected[] = {0, 0.5F, 2.5F, 0, 5.25F};
    for (std::size_t index = 0; index < at.size(); ++index) CHECK(found[index][0] == expected[index]);
  });
}

TEST_CASE("bytes are read as numbers from 0 to 1, and linear memory by whole numbers, 0 beyond its end") {
  run_gpus({}, [] {
    const Gpu gpu;
    cuda::Array* array = nullptr;
    CHECK(texture_test::cudaMallocArray(&array, &kBytes, 1, 1, 0) == 0);
    const unsigned char texel[] = {0, 51, 102, 255};
    CHECK(texture_test::cudaMemcpy2DToArray(array, 0, 0, texel, 4, 4, 1, kToDevice) == 0);
    const auto found = fetched<float>("flat", texture_of(array, {.read_mode = 1}), Rows<float>{{0, 0}})[0];
    CHECK(found == std::array<float, 4>{0, 0.2F, 0.4F, 1});

    const CUdeviceptr memory = allocate(64);
    std::vector<unsigned> words{5, 6, 7, 8};
    CHECK(cuMemcpyHtoD_v2(memory, words.data(), 16) == 0);
    cuda::cudaResourceDesc resource{.type = 2, .of = {}, .flags = 0};
    resource.of.linear = {reinterpret_cast<void*>(memory), {32, 0, 0, 0, 1}, 16};
    const cuda::cudaTextureDesc how{};
    unsigned long long texture = 0;
    CHECK(texture_test::cudaCreateTextureObject(&texture, &resource, &how, nullptr) == 0);
    const auto whole = fetched<unsigned>("whole", texture, Rows<int>{{0}, {3}, {4}, {-1}});
    CHECK(whole[0][0] == 5);
    CHECK(whole[1][0] == 8);
    CHECK(whole[2][0] == 0);
    CHECK(whole[3][0] == 0);
    CHECK(texture_test::cudaDestroyTextureObject(texture) == 0);
    CHECK(texture_test::cudaDestroyTextureObject(texture) == 1);
    const cuda::cudaTextureDesc mean{.filter = 1};
    CHECK(texture_test::cudaCreateTextureObject(&texture, &resource, &mean, nullptr) == 1);
  });
}

TEST_CASE("layers are chosen by number, a cube's face and place by direction") {
  run_gpus({}, [] {
    const Gpu gpu;
    constexpr unsigned kLayered = 1, kCubemap = 4;
    cuda::Array* layers = nullptr;
    CHECK(texture_test::cudaMalloc3DArray(&layers, &kFloats, {2, 2, 6}, kLayered) == 0);
    cuda::Array* cube = nullptr;
    CHECK(texture_test::cudaMalloc3DArray(&cube, &kFloats, {2, 2, 6}, kCubemap) == 0);
    CHECK(texture_test::cudaMalloc3DArray(&cube, &kFloats, {2, 2, 5}, kCubemap) == 1);
    std::vector<float> values = numbers(24);
    for (cuda::Array* array : {layers, cube}) {
      cuda::cudaMemcpy3DParms copy{};
      copy.source = {values.data(), 8, 2, 2};
      copy.target_array = array;
      copy.extent = {2, 2, 6};
      copy.kind = kToDevice;
      CHECK(texture_test::cudaMemcpy3D(&copy) == 0);
    }
    // Layer, x, y: the first number is an integer.
    Rows<float> at{{0, 0.5F, 0.5F}, {0, 1.5F, 1.5F}};
    const int last = 5;
    std::memcpy(&at[1][0], &last, 4);
    const auto found = fetched<float>("layers", texture_of(layers, {.address_mode = {1, 1, 1}}), at);
    CHECK(found[0][0] == 0);
    CHECK(found[1][0] == 23);
    // Each face's centre looks along an axis; (1, 0.5, 0.5) is on face 0 at s = -0.5, t = -0.5: its first texel.
    const cuda::cudaTextureDesc how{.address_mode = {1, 1, 1}, .normalized_coordinates = 1};
    const Rows<float> ways{{1, 0.5F, 0.5F},  {-1, 0.5F, 0.5F}, {0.5F, 1, 0.5F},
                           {0.5F, -1, 0.5F}, {0.5F, 0.5F, 1},  {0.5F, 0.5F, -1}};
    const auto faces = fetched<float>("cube", texture_of(cube, how), ways);
    const float expected[] = {0, 5, 11, 13, 17, 20};
    for (std::size_t index = 0; index < ways.size(); ++index) CHECK(faces[index][0] == expected[index]);
  });
}

TEST_CASE("a surface is written in bytes and rows; outside of it the kernel faults, as with a freed array's texture") {
  const std::string log = run_gpus({}, [] {
    const Gpu gpu;
    cuda::Array* array = nullptr;
    CHECK(texture_test::cudaMallocArray(&array, &kFloats, 4, 3, 2) == 0);
    cuda::cudaResourceDesc resource{};
    resource.of.array = array;
    unsigned long long surface = 0;
    CHECK(texture_test::cudaCreateSurfaceObject(&surface, &resource) == 0);
    const Rows<int> at{{0, 0, 10}, {12, 2, 20}};
    fetched<int>("paint", surface, at);
    std::array<int, 12> found{};
    CHECK(texture_test::cudaMemcpy2DFromArray(found.data(), 16, array, 0, 0, 16, 3, kToHost) == 0);
    CHECK(found == std::array<int, 12>{10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 20});

    CHECK(texture_test::cudaFreeArray(array) == 0);
    CUdeviceptr in = allocate(16), out = allocate(16);
    void* arguments[] = {&surface, &in, &out};
    CHECK(cuLaunchKernel(find_function(kText.c_str(), "paint"), 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr) == 0);
    CHECK(cuCtxSynchronize() == 700);
  });
  CHECK(log.find("is no surface object") != std::string::npos);
}

TEST_CASE("an access that is wider than a surface's rows has no place there, clamped or not") {
  constexpr cuda::cudaChannelFormatDesc kByte{8, 0, 0, 0, 1};
  const std::string log = run_gpus({}, [&] {
    const Gpu gpu;
    cuda::Array* array = nullptr;
    CHECK(texture_test::cudaMallocArray(&array, &kByte, 1, 4096, 2) == 0);
    cuda::cudaResourceDesc resource{};
    resource.of.array = array;
    unsigned long long surface = 0;
    CHECK(texture_test::cudaCreateSurfaceObject(&surface, &resource) == 0);
    CUdeviceptr in = allocate(16), out = allocate(16);
    void* arguments[] = {&surface, &in, &out};
    CHECK(cuLaunchKernel(find_function(kText.c_str(), "wide"), 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr) == 0);
    CHECK(cuCtxSynchronize() == 700);
  });
  CHECK(log.find("an access of 16 bytes to a surface whose rows have 1") != std::string::npos);
}

TEST_CASE("a texture that is destroyed while a kernel waits to read it is read all the same") {
  const std::string log = run_gpus({}, [] {
    const Gpu gpu;
    unsigned long long texture = texture_of(small_array(), {.address_mode = {1, 1, 1}});
    const Rows<float> at{{2, 1}};
    CUdeviceptr in = allocate(12), out = allocate(16);
    CHECK(cuMemcpyHtoD_v2(in, at.data(), 12) == 0);
    void* arguments[] = {&texture, &in, &out};
    const CUfunction function = find_function(kText.c_str(), "flat");
    CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr) == 0);
    CHECK(texture_test::cudaDestroyTextureObject(texture) == 0);
    CHECK(texture_test::cudaDestroyTextureObject(texture) == 1);
    float value = 0;
    CHECK(cuMemcpyDtoH_v2(&value, out, 4) == 0);
    CHECK(value == 6);
  });
  CHECK(log.empty());
}

}  // namespace texture_test
