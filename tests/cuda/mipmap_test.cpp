// Mipmapped arrays, gathers and sRGB. Every number here is what an H200 gives with driver 580.
#include <array>
#include <utility>
#include <vector>

#include "tests/cuda/texels.h"

namespace mipmap_test {

using namespace meshbed::test;
namespace cuda = meshbed::sim::cuda;

extern "C" {
cudaError_t cudaMallocMipmappedArray(cuda::MipmappedArray** mipmap, const cuda::cudaChannelFormatDesc* format,
                                     cuda::cudaExtent extent, unsigned levels, unsigned flags);
cudaError_t cudaGetMipmappedArrayLevel(cuda::Array** array, const cuda::MipmappedArray* mipmap, unsigned level);
cudaError_t cudaFreeMipmappedArray(cuda::MipmappedArray* mipmap);
cudaError_t cudaArrayGetInfo(cuda::cudaChannelFormatDesc* format, cuda::cudaExtent* extent, unsigned* flags,
                             cuda::Array* array);
}

namespace {

CUresult make_mipmap(cuda::MipmappedArray** mipmap, const cuda::CUDA_ARRAY3D_DESCRIPTOR& wanted, unsigned levels) {
  return DRIVER_CALL(cuMipmappedArrayCreate, "cuMipmappedArrayCreate")(mipmap, &wanted, levels);
}
CUresult level_of(cuda::MipmappedArray* mipmap, unsigned level, cuda::Array** array) {
  return DRIVER_CALL(cuMipmappedArrayGetLevel, "cuMipmappedArrayGetLevel")(array, mipmap, level);
}

/// Four levels of 8 x 8 floats and less, which count from 0, 100, 200 and 300 on.
cuda::CUDA_RESOURCE_DESC four_levels() {
  cuda::CUDA_RESOURCE_DESC resource{};
  resource.type = 1;
  CHECK(make_mipmap(&resource.of.mipmap, {8, 8, 0, kFormatFloat, 1, 0}, 4) == 0);
  for (unsigned level = 0; level < 4; ++level) {
    cuda::Array* array = nullptr;
    CHECK(level_of(resource.of.mipmap, level, &array) == 0);
    const std::size_t side = 8U >> level;
    const std::vector<float> values = counted(side * side, 100 * static_cast<float>(level));
    auto copy = into_array(array, values);
    copy.source_pitch = copy.width_bytes = side * 4;
    copy.height = side;
    CHECK(copy_with(copy) == 0);
  }
  return resource;
}

cuda::CUDA_TEXTURE_DESC of_levels(int filter_between) {
  cuda::CUDA_TEXTURE_DESC how = kClamped;
  how.flags = kNormalized;
  how.mipmap_filter = filter_between;
  how.mipmap_most = 9;
  return how;
}

/// At one place of every level, where their numbers are 42, 109, 202 and 300: what it is at each level asked for.
void check_levels(const char* kernel, unsigned long long texture,
                  const std::vector<std::pair<float, float>>& level_and_value) {
  Coordinates<float> at;
  for (const auto& [level, value] : level_and_value) at.push_back({0.3F, 0.7F, level});
  const auto found = fetched_texels<float>(kernel, texture, at);
  for (std::size_t index = 0; index < at.size(); ++index)
    CHECK_MESSAGE(found[index][0] == level_and_value[index].second, kernel, " ", at[index][2]);
}

}  // namespace

TEST_CASE("the levels of a mipmapped array, each half as large, which go with it") {
  run_gpus({}, [] {
    const Gpu gpu;
    const auto describe = DRIVER_CALL(cuArray3DGetDescriptor_v2, "cuArray3DGetDescriptor");
    cuda::MipmappedArray* mipmap = nullptr;
    cuda::Array* level = nullptr;
    cuda::Array* again = nullptr;
    CHECK(make_mipmap(&mipmap, {8, 4, 0, kFormatFloat, 1, 0}, 40) == 0);
    const std::size_t sizes[][2] = {{8, 4}, {4, 2}, {2, 1}, {1, 1}};
    for (unsigned index = 0; index < 4; ++index) {
      cuda::CUDA_ARRAY3D_DESCRIPTOR found{};
      CHECK(level_of(mipmap, index, &level) == 0);
      CHECK(describe(&found, level) == 0);
      CHECK((found.width == sizes[index][0] && found.height == sizes[index][1] && found.depth == 0));
    }
    CHECK(level_of(mipmap, 3, &again) == 0);
    CHECK(again == level);
    CHECK(level_of(mipmap, 4, &level) == kInvalidValue);
    CHECK(level_of(mipmap, 0, nullptr) == kInvalidValue);
    CHECK(level_of(nullptr, 0, &level) == kInvalidHandle);
    CHECK(destroy_array(again) == 0);  // it is not its own
    const auto destroy = DRIVER_CALL(cuMipmappedArrayDestroy, "cuMipmappedArrayDestroy");
    CHECK(destroy(mipmap) == 0);
    CHECK(destroy(nullptr) == kInvalidHandle);
    CHECK(make_mipmap(nullptr, {8, 4, 0, kFormatFloat, 1, 0}, 2) == kInvalidValue);
    CHECK(make_mipmap(&mipmap, {8, 4, 0, kFormatFloat, 3, 0}, 2) == kInvalidValue);
    CHECK(DRIVER_CALL(cuMipmappedArrayCreate, "cuMipmappedArrayCreate")(&mipmap, nullptr, 2) == kInvalidValue);
    CHECK(make_mipmap(&mipmap, {8, 4, 0, kFormatFloat, 1, 0}, 0) == 0);
    CHECK(level_of(mipmap, 1, &level) == kInvalidValue);
  });
}

TEST_CASE("the nearest level, or the mean of two, moved by the bias and within the bounds") {
  run_gpus({}, [] {
    const Gpu gpu;
    const auto resource = four_levels();
    check_levels(
        "level", texture_of(resource, of_levels(0)),
        {{-1, 42}, {0, 42}, {0.49F, 42}, {0.5F, 109}, {1, 109}, {1.4F, 109}, {1.5F, 202}, {2.5F, 300}, {9, 300}});
    // A weight between levels is cut to 8 bits.
    auto how = of_levels(1);
    check_levels("level", texture_of(resource, how),
                 {{-1, 42},
                  {0.003F, 42},
                  {0.4F, 68.6953125F},
                  {0.5F, 75.5F},
                  {0.75F, 92.25F},
                  {1, 109},
                  {1.6F, 164.58203125F},
                  {2.5F, 251},
                  {4, 300}});
    check_levels("flat", texture_of(resource, how), {{0, 42}});
    check_levels("gradients", texture_of(resource, how), {{0, 42}, {0.125F, 42}, {0.25F, 109}, {0.5F, 202}, {2, 300}});
    how.filter = 1;
    check_levels("level", texture_of(resource, how), {{0, 42.7109375F}, {3, 300}});
    how = of_levels(1);
    how.mipmap_bias = 0.5F;
    check_levels("level", texture_of(resource, how), {{-1, 42}, {0, 75.5F}, {0.5F, 109}, {2, 251}, {3, 300}});
    check_levels("flat", texture_of(resource, how), {{0, 42}});
    how = of_levels(1);
    how.mipmap_least = 0.5F;
    how.mipmap_most = 1.25F;
    check_levels("level", texture_of(resource, how), {{0, 75.5F}, {1, 109}, {2, 132.25F}});
    check_levels("flat", texture_of(resource, how), {{0, 75.5F}});
    how = of_levels(1);
    how.mipmap_most = 0;
    check_levels("level", texture_of(resource, how), {{3, 42}});
    // A level alone is an array like others.
    cuda::Array* level = nullptr;
    CHECK(level_of(resource.of.mipmap, 1, &level) == 0);
    const auto found = fetched_texels<float>("flat", texture_of(resource_of_array(level), kClamped),
                                             Coordinates<float>{{0, 0, 0}, {3, 3, 0}});
    CHECK((found[0][0] == 100 && found[1][0] == 115));
    unsigned long long texture = 0;
    cuda::CUDA_RESOURCE_DESC none{};
    none.type = 1;
    CHECK(make_texture_of(none, of_levels(0), &texture) == kInvalidValue);
  });
}

TEST_CASE("a gather is one channel of the four texels around, and needs no mean") {
  run_gpus({}, [] {
    const Gpu gpu;
    const auto resource = resource_of_array(small_float_array());
    const Coordinates<float> at{{0.5F, 0.5F}, {1.3F, 2.2F}, {1.999F, 1.001F}, {3.9F, 2.9F}};
    const auto found = fetched_texels<float>("gather", texture_of(resource, kClamped), at);
    CHECK(found[0] == std::array<float, 4>{4, 5, 1, 0});
    CHECK(found[1] == std::array<float, 4>{8, 9, 5, 4});
    CHECK(found[2] == std::array<float, 4>{5, 6, 2, 1});
    CHECK(found[3] == std::array<float, 4>{11, 11, 11, 11});
    CHECK(fetched_texels<float>("gather_green", texture_of(resource, kClamped), at)[0] == std::array<float, 4>{});
    auto how = kClamped;
    how.address_mode[0] = how.address_mode[1] = how.address_mode[2] = 3;
    how.border[0] = 77;
    const auto border =
        fetched_texels<float>("gather", texture_of(resource, how), Coordinates<float>{{0, 0, 0}, {4, 3, 0}});
    CHECK(border[0] == std::array<float, 4>{77, 0, 77, 77});
    CHECK(border[1] == std::array<float, 4>{77, 77, 77, 11});
    how = kClamped;
    how.address_mode[0] = how.address_mode[1] = how.address_mode[2] = 0;
    how.flags = kNormalized;
    const auto wrapped = fetched_texels<float>("gather", texture_of(resource, how), Coordinates<float>{{0, 0, 0}});
    CHECK(wrapped[0] == std::array<float, 4>{3, 0, 8, 11});
    const auto level =
        fetched_texels<float>("gather", texture_of(four_levels(), of_levels(0)), Coordinates<float>{{0.3F, 0.7F, 0}});
    CHECK(level[0] == std::array<float, 4>{49, 50, 42, 41});
  });
}

TEST_CASE("bytes of sRGB are read as linear ones, the fourth channel as it is") {
  run_gpus({}, [] {
    const Gpu gpu;
    cuda::Array* array = nullptr;
    CHECK(make_array(&array, cuda::CUDA_ARRAY_DESCRIPTOR{2, 1, kFormatByte, 4}) == 0);
    const unsigned char texels[] = {1, 100, 250, 51, 32, 33, 255, 0};
    CHECK(DRIVER_CALL(cuMemcpyHtoA_v2, "cuMemcpyHtoA")(array, 0, texels, 8) == 0);
    auto how = kClamped;
    how.flags = 0x10;
    const auto found =
        fetched_texels<float>("flat", texture_of(resource_of_array(array), how), Coordinates<float>{{0, 0}, {1, 0}});
    CHECK(found[0] == std::array<float, 4>{5.0F / 16384, 2080.0F / 16384, 15616.0F / 16384, 0.2F});
    CHECK(found[1] == std::array<float, 4>{236.0F / 16384, 250.0F / 16384, 1, 0});
  });
}

TEST_CASE("the runtime's mipmapped arrays are the same ones") {
  run_gpus({}, [] {
    const Gpu gpu;
    constexpr cuda::cudaChannelFormatDesc kFloats{32, 0, 0, 0, 2};
    cuda::MipmappedArray* mipmap = nullptr;
    cuda::Array* level = nullptr;
    CHECK(mipmap_test::cudaMallocMipmappedArray(&mipmap, &kFloats, {8, 8, 4}, 9, 0) == 0);
    CHECK(mipmap_test::cudaGetMipmappedArrayLevel(&level, mipmap, 2) == 0);
    cuda::cudaExtent extent{};
    CHECK(mipmap_test::cudaArrayGetInfo(nullptr, &extent, nullptr, level) == 0);
    CHECK((extent.width == 2 && extent.height == 2 && extent.depth == 1));
    CHECK(mipmap_test::cudaGetMipmappedArrayLevel(&level, mipmap, 4) == 1);
    CHECK(mipmap_test::cudaMallocMipmappedArray(nullptr, &kFloats, {8, 8, 0}, 2, 0) == 1);
    CHECK(mipmap_test::cudaFreeMipmappedArray(mipmap) == 0);
    CHECK(mipmap_test::cudaFreeMipmappedArray(nullptr) == 0);
  });
}

}  // namespace mipmap_test
