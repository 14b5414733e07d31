// Textures and surfaces of the driver interface. Every code here is cuda.h's, and those of textures are also what
// driver 580 gives on an H200.
#include <array>

#include "tests/cuda/texels.h"

namespace driver_texture_test {

using namespace meshbed::test;
namespace cuda = meshbed::sim::cuda;

TEST_CASE("a texture of an array: the nearest texel or the mean, beyond the edge, and from 0 to 1") {
  run_gpus({}, [] {
    const Gpu gpu;
    cuda::Array* array = small_float_array();
    cuda::CUDA_TEXTURE_DESC how = kClamped;
    auto texels = fetched_texels<float>("flat", texture_of(resource_of_array(array), how),
                                        Coordinates<float>{{3.9F, 2.9F}, {-5, 1}, {9, 1}});
    CHECK(texels[0] == std::array<float, 4>{11, 0, 0, 0});
    CHECK(texels[1][0] == 4);
    CHECK(texels[2][0] == 7);
    how.filter = 1;
    texels = fetched_texels<float>("flat", texture_of(resource_of_array(array), how),
                                   Coordinates<float>{{1, 1}, {1.75F, 1.5F}});
    CHECK(texels[0][0] == 2.5F);
    CHECK(texels[1][0] == 5.25F);
    // The border has as many channels as the array.
    how = kClamped;
    how.address_mode[0] = how.address_mode[1] = how.address_mode[2] = 3;
    for (std::size_t channel = 0; channel < 4; ++channel) how.border[channel] = 77 + static_cast<float>(channel);
    texels = fetched_texels<float>("flat", texture_of(resource_of_array(array), how), Coordinates<float>{{-1, 0}});
    CHECK(texels[0] == std::array<float, 4>{77, 0, 0, 0});
    how = kClamped;
    how.address_mode[0] = 0;
    how.flags = kNormalized;
    CHECK(fetched_texels<float>("flat", texture_of(resource_of_array(array), how),
                                Coordinates<float>{{1.3F, 0}})[0][0] == 1);

    cuda::Array* bytes = nullptr;
    CHECK(make_array(&bytes, cuda::CUDA_ARRAY_DESCRIPTOR{1, 1, kFormatByte, 4}) == 0);
    const unsigned char texel[] = {0, 51, 102, 255};
    CHECK(DRIVER_CALL(cuMemcpyHtoA_v2, "cuMemcpyHtoA")(bytes, 0, texel, 4) == 0);
    texels = fetched_texels<float>("flat", texture_of(resource_of_array(bytes), kClamped), Coordinates<float>{{0, 0}});
    CHECK(texels[0] == std::array<float, 4>{0, 0.2F, 0.4F, 1});
    how = kClamped;
    how.flags = kAsInteger;
    const auto whole =
        fetched_texels<unsigned>("whole_flat", texture_of(resource_of_array(bytes), how), Coordinates<int>{{0, 0}});
    CHECK(whole[0] == std::array<unsigned, 4>{0, 51, 102, 255});
    // 32 bits are never a number from 0 to 1.
    cuda::Array* words = nullptr;
    CHECK(make_array(&words, cuda::CUDA_ARRAY_DESCRIPTOR{1, 1, kFormatWord, 1}) == 0);
    const unsigned word = 4000000000U;
    CHECK(DRIVER_CALL(cuMemcpyHtoA_v2, "cuMemcpyHtoA")(words, 0, &word, 4) == 0);
    CHECK(fetched_texels<unsigned>("whole_flat", texture_of(resource_of_array(words), kClamped),
                                   Coordinates<int>{{0, 0}})[0][0] == word);
  });
}

TEST_CASE("a texture of linear memory and one of rows with a pitch, as aligned as textures have to be") {
  run_gpus({}, [] {
    const Gpu gpu;
    int alignment = 0, pitch_alignment = 0;
    CHECK(DRIVER_CALL(cuDeviceGetAttribute, "cuDeviceGetAttribute")(&alignment, 14, 0) == 0);
    CHECK(DRIVER_CALL(cuDeviceGetAttribute, "cuDeviceGetAttribute")(&pitch_alignment, 51, 0) == 0);
    CHECK(alignment == 512);
    CHECK(pitch_alignment == 32);
    const CUdeviceptr memory = allocate(1024);
    const std::vector<float> values = counted(256);
    CHECK(cuMemcpyHtoD_v2(memory, values.data(), 1024) == 0);
    cuda::CUDA_RESOURCE_DESC linear{};
    linear.type = kLinearResource;
    linear.of.linear = {memory, kFormatFloat, 2, 64};
    auto texture = texture_of(linear, kClamped);
    const auto found = fetched_texels<float>("whole", texture, Coordinates<int>{{3, 0}, {8, 0}});
    CHECK(found[0] == std::array<float, 4>{6, 7, 0, 0});
    CHECK(found[1] == std::array<float, 4>{0, 0, 0, 0});
    cuda::CUDA_RESOURCE_DESC read{};
    CHECK(DRIVER_CALL(cuTexObjectGetResourceDesc, "cuTexObjectGetResourceDesc")(&read, texture) == 0);
    CHECK((read.type == kLinearResource && read.of.linear.address == memory && read.of.linear.format == kFormatFloat));
    CHECK((read.of.linear.channels == 2 && read.of.linear.bytes == 64));
    const auto refused = [&](CUdeviceptr address, int format, unsigned channels) {
      linear.of.linear = {address, format, channels, 64};
      CHECK(make_texture_of(linear, kClamped, &texture) == kInvalidValue);
    };
    refused(memory + 4, kFormatFloat, 1);
    refused(memory + 256, kFormatFloat, 1);
    refused(memory, kFormatFloat, 3);
    refused(memory, 7, 1);
    refused(0, kFormatFloat, 1);
    cuda::CUDA_RESOURCE_DESC rows{};
    rows.type = kPitchResource;
    rows.of.pitch = {memory, kFormatFloat, 1, 6, 4, 64};
    texture = texture_of(rows, kClamped);
    CHECK(fetched_texels<float>("flat", texture, Coordinates<float>{{5.5F, 3.5F}, {9, 0}})[0][0] == 53);
    CHECK(DRIVER_CALL(cuTexObjectGetResourceDesc, "cuTexObjectGetResourceDesc")(&read, texture) == 0);
    CHECK((read.of.pitch.width == 6 && read.of.pitch.height == 4 && read.of.pitch.pitch == 64));
    rows.of.pitch.pitch = 48;
    CHECK(make_texture_of(rows, kClamped, &texture) == kInvalidValue);
    rows.of.pitch.pitch = 64;
    rows.of.pitch.address = memory + 32;
    CHECK(make_texture_of(rows, kClamped, &texture) == kInvalidValue);
    rows.of.pitch.address = memory;
    CHECK(make_texture_of(rows, kClamped, &texture) == 0);
    // Products of these are small numbers again.
    rows.of.pitch.width = (std::size_t{1} << 62U) + 1;
    CHECK(make_texture_of(rows, kClamped, &texture) == kInvalidValue);
    rows.of.pitch.width = 1;
    rows.of.pitch.height = (std::size_t{1} << 58U) + 1;
    CHECK(make_texture_of(rows, kClamped, &texture) == kInvalidValue);
    // What a device can address, asked and tried.
    const auto limit = [](int attribute) {
      int value = 0;
      CHECK(cuDeviceGetAttribute(&value, attribute, 0) == 0);
      return static_cast<std::size_t>(value);
    };
    const std::size_t most_texels = limit(69), most_width = limit(70), most_rows = limit(71), most_pitch = limit(72);
    CHECK((most_texels >= 1U << 27U && most_width >= 1U << 16U && most_rows >= 65000 && most_pitch >= 1U << 20U));
    const auto pitched = [&](std::size_t width, std::size_t height, std::size_t pitch) {
      rows.of.pitch.width = width;
      rows.of.pitch.height = height;
      rows.of.pitch.pitch = pitch;
      return make_texture_of(rows, kClamped, &texture);
    };
    CHECK(pitched(1, 1, most_pitch) == 0);
    CHECK(pitched(1, 1, most_pitch + 32) == kInvalidValue);
    CHECK(pitched(1, most_rows + 1, 32) == kInvalidValue);
    CHECK(pitched(most_width + 1, 1, most_pitch) == kInvalidValue);
  });
}

TEST_CASE("a texture gives its descriptors back until it is destroyed; what is no description is an invalid value") {
  run_gpus({}, [] {
    const Gpu gpu;
    const auto create = DRIVER_CALL(cuTexObjectCreate, "cuTexObjectCreate");
    const auto describe = DRIVER_CALL(cuTexObjectGetTextureDesc, "cuTexObjectGetTextureDesc");
    const auto resource_desc = DRIVER_CALL(cuTexObjectGetResourceDesc, "cuTexObjectGetResourceDesc");
    cuda::Array* array = small_float_array();
    cuda::CUDA_RESOURCE_DESC resource = resource_of_array(array), read{};
    cuda::CUDA_TEXTURE_DESC how = kClamped, found{};
    how.address_mode[1] = 2;
    how.filter = 1;
    how.flags = kNormalized;
    how.anisotropy_max = 4;
    unsigned long long texture = texture_of(resource, how);
    CHECK(describe(&found, texture) == 0);
    CHECK((found.address_mode[0] == 1 && found.address_mode[1] == 2 && found.filter == 1));
    CHECK((found.flags == kNormalized && found.anisotropy_max == 4));
    CHECK(resource_desc(&read, texture) == 0);
    CHECK((read.type == kArrayResource && read.of.array == array && read.flags == 0));
    CHECK(describe(nullptr, texture) == kInvalidValue);
    CHECK(resource_desc(nullptr, texture) == kInvalidValue);
    CHECK(resource_desc(&read, 0) == kInvalidValue);
    CHECK(DRIVER_CALL(cuTexObjectDestroy, "cuTexObjectDestroy")(texture) == 0);
    CHECK(describe(&found, texture) == kInvalidValue);

    CHECK(create(nullptr, &resource, &how, nullptr) == kInvalidValue);
    CHECK(create(&texture, nullptr, &how, nullptr) == kInvalidValue);
    CHECK(create(&texture, &resource, nullptr, nullptr) == kInvalidValue);
    const auto refused = [&](const auto& change) {
      cuda::CUDA_RESOURCE_DESC of = resource_of_array(array);
      cuda::CUDA_TEXTURE_DESC wrong = kClamped;
      change(of, wrong);
      CHECK(make_texture_of(of, wrong, &texture) == kInvalidValue);
    };
    refused([](auto&, auto& wrong) { wrong.flags = 0x40; });  // seamless, and no cubemap
    refused([](auto&, auto& wrong) { wrong.flags = 0x80; });
    refused([](auto&, auto& wrong) { wrong.filter = 2; });
    refused([](auto&, auto& wrong) { wrong.mipmap_filter = 2; });
    refused([](auto&, auto& wrong) { wrong.address_mode[0] = 4; });
    refused([](auto&, auto& wrong) { wrong.reserved[0] = 1; });
    refused([](auto& of, auto&) { of.flags = 1; });
    refused([](auto& of, auto&) { of.type = 4; });
    refused([](auto& of, auto&) { of.of.array = nullptr; });
    CHECK(destroy_array(array) == 0);
    refused([](auto&, auto&) {});
  });
}

TEST_CASE("a surface is written and read in bytes and rows, and is no texture") {
  run_gpus({}, [] {
    const Gpu gpu;
    const auto create = DRIVER_CALL(cuSurfObjectCreate, "cuSurfObjectCreate");
    const auto describe = DRIVER_CALL(cuSurfObjectGetResourceDesc, "cuSurfObjectGetResourceDesc");
    cuda::Array* array = nullptr;
    CHECK(make_array(&array, cuda::CUDA_ARRAY3D_DESCRIPTOR{4, 3, 0, kFormatWord, 1, kSurface}) == 0);
    const std::vector<float> zeros(12);
    CHECK(copy_with(into_array(array, zeros)) == 0);
    cuda::CUDA_RESOURCE_DESC resource = resource_of_array(array), read{};
    unsigned long long surface = 0;
    CHECK(create(&surface, &resource) == 0);
    fetched_texels<int>("paint", surface, Coordinates<int>{{0, 0, 10}, {12, 2, 20}});
    const auto found = fetched_texels<int>("load", surface, Coordinates<int>{{12, 2, 0}, {8, 2, 0}, {0, 0, 0}});
    CHECK(found[0][0] == 20);
    CHECK(found[1][0] == 0);
    CHECK(found[2][0] == 10);
    CHECK(describe(&read, surface) == 0);
    CHECK((read.type == kArrayResource && read.of.array == array));
    cuda::CUDA_TEXTURE_DESC how{};
    CHECK(DRIVER_CALL(cuTexObjectGetTextureDesc, "cuTexObjectGetTextureDesc")(&how, surface) == kInvalidValue);
    CHECK(create(&surface, nullptr) == kInvalidValue);
    CHECK(describe(&read, 0) == kInvalidValue);
    CHECK(DRIVER_CALL(cuSurfObjectDestroy, "cuSurfObjectDestroy")(surface) == 0);
    CHECK(describe(&read, surface) == kInvalidValue);
    resource.type = kLinearResource;
    CHECK(create(&surface, &resource) == kInvalidValue);
  });
}

TEST_CASE("the calls are found from the version on that has them") {
  run_gpus({}, [] {
    void* function = nullptr;
    int status = -1;
    constexpr int kOfLaterVersion = 2;
    CHECK(cuGetProcAddress_v2("cuTexObjectCreate", &function, 5000, 0, &status) == 0);
    CHECK((function != nullptr && status == 0));
    CHECK(cuGetProcAddress_v2("cuTexObjectCreate", &function, 3020, 0, &status) == 0);
    CHECK((function == nullptr && status == kOfLaterVersion));
    find_entry<void()>("cuMemcpyHtoA", 3020);
    find_entry<void()>("cuArray3DCreate", 3020);
    constexpr unsigned long long kPerThread = 2;
    CHECK((find_entry<void()>("cuMemcpyHtoA", 13000, kPerThread) != find_entry<void()>("cuMemcpyHtoA", 13000)));
    CHECK((find_entry<void()>("cuMemcpy3DAsync", 13000, kPerThread) != find_entry<void()>("cuMemcpy3DAsync", 13000)));
  });
}

}  // namespace driver_texture_test
