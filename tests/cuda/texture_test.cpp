// CUDA arrays, textures and surfaces: what a fetch reads, by the tables of the CUDA C++ Programming Guide.
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "tests/cuda/texels.h"

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

/// 4 x 3 floats 0, 1 ... 11.
cuda::Array* small_array() {
  cuda::Array* array = nullptr;
  CHECK(texture_test::cudaMallocArray(&array, &kFloats, 4, 3, 0) == 0);
  CHECK(texture_test::cudaMemcpy2DToArray(array, 0, 0, counted(12).data(), 16, 16, 3, kToDevice) == 0);
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
    const Coordinates<float> at{{0, 0}, {3.9F, 2.9F}, {1.5F, 1}, {-5, 1}, {9, 1}};
    cuda::cudaTextureDesc how{.address_mode = {1, 1, 1}};
    const auto clamped = fetched_texels<float>("flat", texture_of(array, how), at);
    const float expected[] = {0, 11, 5, 4, 7};
    for (std::size_t index = 0; index < at.size(); ++index) CHECK(clamped[index][0] == expected[index]);
    how.address_mode[0] = 3;
    how.border[0] = 77;
    CHECK(fetched_texels<float>("flat", texture_of(array, how), at)[3][0] == 77);
    // With normalized coordinates: 1.25 wraps to 0.25, and -0.1 is mirrored to 0.1.
    how = {.address_mode = {0, 1, 1}, .normalized_coordinates = 1};
    CHECK(fetched_texels<float>("flat", texture_of(array, how), Coordinates<float>{{1.3F, 0}})[0][0] == 1);
    how.address_mode[0] = 2;
    CHECK(fetched_texels<float>("flat", texture_of(array, how), Coordinates<float>{{-0.3F, 0}, {1.3F, 0}})[0][0] == 1);
    CHECK(fetched_texels<float>("flat", texture_of(array, how), Coordinates<float>{{1.3F, 0}})[0][0] == 2);
    CHECK(texture_test::cudaFreeArray(array) == 0);
    CHECK(texture_test::cudaFreeArray(array) == 1);
  });
  CHECK(log.empty());
}

TEST_CASE("a linear fetch lies between the centres of texels") {
  run_gpus({}, [] {
    const Gpu gpu;
    const cuda::cudaTextureDesc how{.address_mode = {1, 1, 1}, .filter = 1};
    const Coordinates<float> at{{0.5F, 0.5F}, {1, 0.5F}, {1, 1}, {0, 0}, {1.75F, 1.5F}};
    const auto found = fetched_texels<float>("flat", texture_of(small_array(), how), at);
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
    const auto found =
        fetched_texels<float>("flat", texture_of(array, {.read_mode = 1}), Coordinates<float>{{0, 0}})[0];
    CHECK(found == std::array<float, 4>{0, 0.2F, 0.4F, 1});

    const CUdeviceptr memory = allocate(64);
    std::vector<unsigned> words{5, 6, 7, 8};
    CHECK(cuMemcpyHtoD_v2(memory, words.data(), 16) == 0);
    cuda::cudaResourceDesc resource{.type = 2, .of = {}, .flags = 0};
    resource.of.linear = {reinterpret_cast<void*>(memory), {32, 0, 0, 0, 1}, 16};
    const cuda::cudaTextureDesc how{};
    unsigned long long texture = 0;
    CHECK(texture_test::cudaCreateTextureObject(&texture, &resource, &how, nullptr) == 0);
    const auto whole = fetched_texels<unsigned>("whole", texture, Coordinates<int>{{0}, {3}, {4}, {-1}});
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
    cuda::Array* layers = nullptr;
    CHECK(texture_test::cudaMalloc3DArray(&layers, &kFloats, {2, 2, 6}, kLayered) == 0);
    cuda::Array* cube = nullptr;
    CHECK(texture_test::cudaMalloc3DArray(&cube, &kFloats, {2, 2, 6}, kCubemap) == 0);
    CHECK(texture_test::cudaMalloc3DArray(&cube, &kFloats, {2, 2, 5}, kCubemap) == 1);
    std::vector<float> values = counted(24);
    for (cuda::Array* array : {layers, cube}) {
      cuda::cudaMemcpy3DParms copy{};
      copy.source = {values.data(), 8, 2, 2};
      copy.target_array = array;
      copy.extent = {2, 2, 6};
      copy.kind = kToDevice;
      CHECK(texture_test::cudaMemcpy3D(&copy) == 0);
      copy.target_position.x = std::size_t{1} << 62U;  // 0 again when it is counted in bytes
      CHECK(texture_test::cudaMemcpy3D(&copy) == 1);
      copy.target_position.x = 0;
      copy.extent.width = (std::size_t{1} << 62U) + 1;
      CHECK(texture_test::cudaMemcpy3D(&copy) == 1);
    }
    // Layer, x, y: the first number is an integer.
    Coordinates<float> at{{0, 0.5F, 0.5F}, {0, 1.5F, 1.5F}};
    const int last = 5;
    std::memcpy(&at[1][0], &last, 4);
    const auto found = fetched_texels<float>("layers", texture_of(layers, {.address_mode = {1, 1, 1}}), at);
    CHECK(found[0][0] == 0);
    CHECK(found[1][0] == 23);
    // Each face's centre looks along an axis; (1, 0.5, 0.5) is on face 0 at s = -0.5, t = -0.5: its first texel.
    const cuda::cudaTextureDesc how{.address_mode = {1, 1, 1}, .normalized_coordinates = 1};
    const Coordinates<float> ways{{1, 0.5F, 0.5F},  {-1, 0.5F, 0.5F}, {0.5F, 1, 0.5F},
                                  {0.5F, -1, 0.5F}, {0.5F, 0.5F, 1},  {0.5F, 0.5F, -1}};
    const auto faces = fetched_texels<float>("cube", texture_of(cube, how), ways);
    const float expected[] = {0, 5, 11, 13, 17, 20};
    for (std::size_t index = 0; index < ways.size(); ++index) CHECK(faces[index][0] == expected[index]);
    // What has no faces is read as if it were all of them.
    const auto of_one = fetched_texels<float>("cube", texture_of(small_array(), how), ways);
    CHECK(of_one[0][0] == 1);
    CHECK(of_one[5][0] == 1);
  });
}

TEST_CASE("a texture of memory that was freed reads what was allocated there since, and never what is gone") {
  run_gpus({}, [] {
    const Gpu gpu;
    constexpr std::size_t kSize = std::size_t{1} << 20U;
    const CUdeviceptr first = allocate(kSize);
    cuda::cudaResourceDesc resource{.type = 2, .of = {}, .flags = 0};
    resource.of.linear = {reinterpret_cast<void*>(first), {32, 0, 0, 0, 1}, 16};
    const cuda::cudaTextureDesc how{};
    unsigned long long texture = 0;
    CHECK(texture_test::cudaCreateTextureObject(&texture, &resource, &how, nullptr) == 0);
    CHECK(cuMemFree_v2(first) == 0);
    // Which addresses are given again the kernel decides: halves of what was whole are seen there at the second one.
    CUdeviceptr again = 0;
    for (int tries = 0; tries < 16 && again != first; ++tries) again = allocate(kSize / 2);
    if (again != first) {
      MESSAGE("the address was not given again: nothing was read");
      return;
    }
    const unsigned number = 9;
    CHECK(cuMemcpyHtoD_v2(again, &number, 4) == 0);
    CHECK(fetched_texels<unsigned>("whole", texture, Coordinates<int>{{0}})[0][0] == 9);
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
    const Coordinates<int> at{{0, 0, 10}, {12, 2, 20}};
    fetched_texels<int>("paint", surface, at);
    std::array<int, 12> found{};
    CHECK(texture_test::cudaMemcpy2DFromArray(found.data(), 16, array, 0, 0, 16, 3, kToHost) == 0);
    CHECK(found == std::array<int, 12>{10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 20});

    CHECK(texture_test::cudaFreeArray(array) == 0);
    CUdeviceptr in = allocate(16), out = allocate(16);
    void* arguments[] = {&surface, &in, &out};
    CHECK(cuLaunchKernel(find_function(kTexelKernels.c_str(), "paint"), 1, 1, 1, 1, 1, 1, 0, nullptr, arguments,
                         nullptr) == 0);
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
    CHECK(cuLaunchKernel(find_function(kTexelKernels.c_str(), "wide"), 1, 1, 1, 1, 1, 1, 0, nullptr, arguments,
                         nullptr) == 0);
    CHECK(cuCtxSynchronize() == 700);
  });
  CHECK(log.find("an access of 16 bytes to a surface whose rows have 1") != std::string::npos);
}

TEST_CASE("a texture that is destroyed while a kernel waits to read it is read all the same") {
  const std::string log = run_gpus({}, [] {
    const Gpu gpu;
    unsigned long long texture = texture_of(small_array(), {.address_mode = {1, 1, 1}});
    const Coordinates<float> at{{2, 1}};
    CUdeviceptr in = allocate(12), out = allocate(16);
    CHECK(cuMemcpyHtoD_v2(in, at.data(), 12) == 0);
    void* arguments[] = {&texture, &in, &out};
    const CUfunction function = find_function(kTexelKernels.c_str(), "flat");
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
