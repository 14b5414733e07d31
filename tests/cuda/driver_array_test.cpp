// CUDA arrays of the driver interface and the copies into and out of them. Every code here but the graph's is also what
// driver 580 gives on an H200.
#include <vector>

#include "tests/cuda/texels.h"

namespace driver_array_test {

using namespace meshbed::test;
namespace cuda = meshbed::sim::cuda;

namespace {

/// Two floats a row, from the third on, of the last two rows of `depth` planes, to the host.
cuda::CUDA_MEMCPY3D corner_of(cuda::Array* array, std::size_t depth, float* target) {
  cuda::CUDA_MEMCPY3D wanted{};
  wanted.source.kind = kFromArray;
  wanted.source.array = array;
  wanted.source.x_bytes = 8;
  wanted.source.y = 1;
  wanted.target.kind = kFromHost;
  wanted.target.host = target;
  wanted.width_bytes = 8;
  wanted.height = 2;
  wanted.depth = depth;
  return wanted;
}

}  // namespace

TEST_CASE("an array is what its descriptor says, and gives the descriptor back") {
  run_gpus({}, [] {
    const Gpu gpu;
    const auto flat = DRIVER_CALL(cuArrayGetDescriptor_v2, "cuArrayGetDescriptor");
    const auto deep = DRIVER_CALL(cuArray3DGetDescriptor_v2, "cuArray3DGetDescriptor");
    cuda::CUDA_ARRAY_DESCRIPTOR two{};
    cuda::CUDA_ARRAY3D_DESCRIPTOR three{};
    cuda::Array* array = nullptr;
    CHECK(make_array(&array, cuda::CUDA_ARRAY_DESCRIPTOR{4, 0, kFormatHalf, 4}) == 0);
    CHECK(flat(&two, array) == 0);
    CHECK((two.width == 4 && two.height == 0 && two.format == kFormatHalf && two.channels == 4));
    CHECK(deep(&three, array) == 0);
    CHECK((three.width == 4 && three.height == 0 && three.depth == 0 && three.flags == 0));
    CHECK(make_array(&array, cuda::CUDA_ARRAY3D_DESCRIPTOR{4, 3, 6, kFormatSignedByte, 2, kLayered | kSurface}) == 0);
    CHECK(deep(&three, array) == 0);
    CHECK((three.depth == 6 && three.format == kFormatSignedByte && three.channels == 2 && three.flags == 3));
    CHECK(flat(&two, array) == 0);
    CHECK((two.width == 4 && two.height == 3 && two.format == kFormatSignedByte && two.channels == 2));
    CHECK(destroy_array(array) == 0);
  });
}

TEST_CASE("shapes and formats that no array has are invalid values, handles that are none invalid handles") {
  run_gpus({}, [] {
    cuda::Array* array = nullptr;
    {
      const Gpu gpu;
      const std::vector<cuda::CUDA_ARRAY_DESCRIPTOR> flat{{4, 4, kFormatFloat, 3},
                                                          {4, 4, kFormatFloat, 0},
                                                          {4, 4, kFormatFloat, 5},
                                                          {4, 4, 7, 1},
                                                          {4, 4, 0, 1},
                                                          {0, 0, kFormatByte, 1},
                                                          {0, 4, kFormatByte, 1},
                                                          {131073, 0, kFormatByte, 1},
                                                          {16, 65537, kFormatByte, 1}};
      for (const auto& none : flat) CHECK(make_array(&array, none) == kInvalidValue);
      const std::vector<cuda::CUDA_ARRAY3D_DESCRIPTOR> deep{
          {4, 0, 4, kFormatFloat, 1, 0},        {4, 5, 6, kFormatFloat, 1, kCubemap},
          {4, 4, 5, kFormatFloat, 1, kCubemap}, {4, 4, 4, kFormatFloat, 1, kGather},
          {4, 0, 0, kFormatFloat, 1, kGather},  {4, 4, 0, kFormatFloat, 1, kLayered},
          {16385, 4, 4, kFormatFloat, 1, 0},    {4, 4, 2049, kFormatFloat, 1, kLayered}};
      for (const auto& none : deep) CHECK(make_array(&array, none) == kInvalidValue);
      CHECK(make_array(nullptr, cuda::CUDA_ARRAY_DESCRIPTOR{4, 4, kFormatFloat, 1}) == kInvalidValue);
      CHECK(DRIVER_CALL(cuArrayCreate_v2, "cuArrayCreate")(&array, nullptr) == kInvalidValue);
      CHECK(DRIVER_CALL(cuArray3DCreate_v2, "cuArray3DCreate")(&array, nullptr) == kInvalidValue);
      CHECK(make_array(&array, cuda::CUDA_ARRAY3D_DESCRIPTOR{4, 0, 4, kFormatFloat, 1, kLayered}) == 0);
      CHECK(make_array(&array, cuda::CUDA_ARRAY_DESCRIPTOR{4, 4, kFormatFloat, 1}) == 0);
      const auto describe = DRIVER_CALL(cuArrayGetDescriptor_v2, "cuArrayGetDescriptor");
      CHECK(describe(nullptr, array) == kInvalidValue);
      cuda::CUDA_ARRAY_DESCRIPTOR found{};
      CHECK(describe(&found, nullptr) == kInvalidHandle);
      CHECK(destroy_array(nullptr) == kInvalidHandle);
      CHECK(destroy_array(array) == 0);
      CHECK(describe(&found, array) == kContextIsDestroyed);
      CHECK(destroy_array(array) == kContextIsDestroyed);
      CHECK(cuCtxPopCurrent_v2(nullptr) == 0);
    }
    CHECK(make_array(&array, cuda::CUDA_ARRAY_DESCRIPTOR{4, 4, kFormatFloat, 1}) == kInvalidContext);
  });
}

TEST_CASE("rows go into an array and out of it; what does not fit is an invalid value") {
  run_gpus({}, [] {
    const Gpu gpu;
    cuda::Array* array = small_float_array();
    CHECK(found_in_array(array) == counted(12));
    const std::vector<float> values = counted(12, 100);
    auto part = into_array(array, values);
    part.target_x_bytes = 8;
    part.target_y = 1;
    part.width_bytes = 8;
    part.height = 2;
    CHECK(copy_with(part) == 0);
    CHECK(found_in_array(array) == std::vector<float>{0, 1, 2, 3, 4, 5, 100, 101, 8, 9, 104, 105});
    const auto refused = [&](const auto& change) {
      auto wrong = into_array(array, values);
      change(wrong);
      CHECK(copy_with(wrong) == kInvalidValue);
    };
    refused([](auto& wrong) { wrong.target_x_bytes = 4; });
    refused([](auto& wrong) { wrong.target_y = 1; });
    refused([](auto& wrong) { wrong.width_bytes = 18; });
    refused([](auto& wrong) { wrong.source_pitch = 8; });
    refused([](auto& wrong) { wrong.target_array = nullptr; });
    refused([](auto& wrong) { wrong.target_kind = 7; });
    refused([](auto& wrong) { wrong.source_kind = 0; });
    CHECK(DRIVER_CALL(cuMemcpy2D_v2, "cuMemcpy2D")(nullptr) == kInvalidValue);

    // To an array from the device's memory, in a stream, and from one array to another one.
    const CUdeviceptr memory = allocate(64);
    CHECK(cuMemcpyHtoD_v2(memory, values.data(), 48) == 0);
    cuda::CUDA_MEMCPY2D wanted = into_array(array, values);
    wanted.source_kind = kFromDevice;
    wanted.source_device = memory;
    const CUstream stream = make_stream();
    CHECK(DRIVER_CALL(cuMemcpy2DAsync_v2, "cuMemcpy2DAsync")(&wanted, handle_of(stream)) == 0);
    CHECK(cuStreamSynchronize(stream) == 0);
    cuda::Array* other = small_float_array();
    wanted.source_kind = kFromArray;
    wanted.source_array = array;
    wanted.source_pitch = 0;
    wanted.target_array = other;
    CHECK(DRIVER_CALL(cuMemcpy2DUnaligned_v2, "cuMemcpy2DUnaligned")(&wanted) == 0);
    CHECK(found_in_array(other) == values);
  });
}

TEST_CASE("a run of bytes goes into the first row of an array and out of it") {
  run_gpus({}, [] {
    const Gpu gpu;
    cuda::Array* array = nullptr;
    cuda::Array* other = nullptr;
    CHECK(make_array(&array, cuda::CUDA_ARRAY_DESCRIPTOR{8, 0, kFormatFloat, 1}) == 0);
    CHECK(make_array(&other, cuda::CUDA_ARRAY_DESCRIPTOR{16, 0, 2, 1}) == 0);
    const std::vector<float> values = counted(8);
    const auto in = DRIVER_CALL(cuMemcpyHtoA_v2, "cuMemcpyHtoA");
    const auto out = DRIVER_CALL(cuMemcpyAtoH_v2, "cuMemcpyAtoH");
    CHECK(in(array, 0, values.data(), 32) == 0);
    CHECK(in(array, 4, values.data(), 32) == kInvalidValue);
    CHECK(in(nullptr, 0, values.data(), 4) == kInvalidValue);
    CHECK(in(array, 0, nullptr, 4) == kInvalidValue);
    std::vector<float> found(3);
    CHECK(out(found.data(), array, 8, 12) == 0);
    CHECK(found == counted(3, 2));
    CHECK(out(found.data(), array, 28, 8) == kInvalidValue);
    const CUdeviceptr memory = allocate(64);
    CHECK(DRIVER_CALL(cuMemcpyAtoD_v2, "cuMemcpyAtoD")(memory, array, 16, 16) == 0);
    CHECK(DRIVER_CALL(cuMemcpyDtoA_v2, "cuMemcpyDtoA")(array, 0, memory, 16) == 0);
    CHECK(DRIVER_CALL(cuMemcpyDtoA_v2, "cuMemcpyDtoA")(array, 20, memory, 16) == kInvalidValue);
    CHECK(found_in_array(array, 8, 1) == std::vector<float>{4, 5, 6, 7, 4, 5, 6, 7});
    // Bytes are copied, whatever they are in either array.
    CHECK(DRIVER_CALL(cuMemcpyAtoA_v2, "cuMemcpyAtoA")(other, 4, array, 8, 12) == 0);
    CHECK(DRIVER_CALL(cuMemcpyAtoA_v2, "cuMemcpyAtoA")(other, 4, array, 24, 12) == kInvalidValue);
    CHECK(out(found.data(), other, 4, 12) == 0);
    CHECK(found == std::vector<float>{6, 7, 4});
    const CUstream stream = make_stream();
    auto* pinned = static_cast<float*>(allocate_pinned(32));
    CHECK(DRIVER_CALL(cuMemcpyHtoAAsync_v2, "cuMemcpyHtoAAsync")(array, 0, values.data(), 32, handle_of(stream)) == 0);
    CHECK(DRIVER_CALL(cuMemcpyAtoHAsync_v2, "cuMemcpyAtoHAsync")(pinned, array, 0, 32, handle_of(stream)) == 0);
    CHECK(cuStreamSynchronize(stream) == 0);
    CHECK(std::vector<float>(pinned, pinned + 8) == values);
    // Over the end of a row, and in another row: not with these calls.
    cuda::Array* flat = small_float_array();
    CHECK(in(flat, 0, values.data(), 16) == 0);
    CHECK(in(flat, 8, values.data(), 16) == kInvalidValue);
    CHECK(in(flat, 16, values.data(), 8) == kInvalidValue);
  });
}

TEST_CASE("a box goes into an array of three dimensions and out of it") {
  run_gpus({}, [] {
    const Gpu gpu;
    cuda::Array* array = nullptr;
    CHECK(make_array(&array, cuda::CUDA_ARRAY3D_DESCRIPTOR{4, 3, 2, kFormatFloat, 1, 0}) == 0);
    const std::vector<float> values = counted(24);
    cuda::CUDA_MEMCPY3D in{};
    in.source.kind = kFromHost;
    in.source.host = values.data();
    in.source.pitch = 16;
    in.source.height = 3;
    in.target.kind = kFromArray;
    in.target.array = array;
    in.width_bytes = 16;
    in.height = 3;
    in.depth = 2;
    CHECK(copy_with(in) == 0);
    std::vector<float> found(8, -1);
    const cuda::CUDA_MEMCPY3D out = corner_of(array, 2, found.data());
    const CUstream stream = make_stream();
    CHECK(DRIVER_CALL(cuMemcpy3DAsync_v2, "cuMemcpy3DAsync")(&out, handle_of(stream)) == 0);
    CHECK(cuStreamSynchronize(stream) == 0);
    CHECK(found == std::vector<float>{6, 7, 10, 11, 18, 19, 22, 23});
    const auto refused = [&](const auto& change) {
      cuda::CUDA_MEMCPY3D wrong = in;
      change(wrong);
      CHECK(copy_with(wrong) == kInvalidValue);
    };
    refused([](auto& wrong) { wrong.target.level = 1; });
    refused([](auto& wrong) { wrong.target.z = 1; });
    refused([](auto& wrong) { wrong.target.y = 1; });
    refused([](auto& wrong) { wrong.height = 4; });
    refused([](auto& wrong) { wrong.width_bytes = 20; });
    refused([](auto& wrong) { wrong.depth = 3; });
    refused([](auto& wrong) { wrong.source.height = 2; });
    refused([](auto& wrong) { wrong.source.pitch = 8; });
    refused([](auto& wrong) { wrong.source.kind = 0; });
    refused([](auto& wrong) { wrong.target.array = nullptr; });
    CHECK(DRIVER_CALL(cuMemcpy3D_v2, "cuMemcpy3D")(nullptr) == kInvalidValue);

    auto texture = texture_of(resource_of_array(array), kClamped);
    const auto texels =
        fetched_texels<float>("volume", texture, Coordinates<float>{{1.5F, 2.5F, 1.5F}, {9, 9, 9}, {0, 0, 0}});
    CHECK(texels[0][0] == 21);
    CHECK(texels[1][0] == 23);
    CHECK(texels[2][0] == 0);
  });
}

TEST_CASE("a graph's node copies rows of an array, and says so") {
  run_gpus({}, [] {
    const Gpu gpu;
    cuda::Array* array = small_float_array();
    auto* pinned = static_cast<float*>(allocate_pinned(16));
    const cuda::CUDA_MEMCPY3D wanted = corner_of(array, 1, pinned);
    cuda::Graph* graph = nullptr;
    cuda::GraphNode* node = nullptr;
    cuda::GraphExec* executable = nullptr;
    CHECK(DRIVER_CALL(cuGraphCreate, "cuGraphCreate")(&graph, 0) == 0);
    CHECK(DRIVER_CALL(cuGraphAddMemcpyNode, "cuGraphAddMemcpyNode")(&node, graph, nullptr, 0, &wanted, nullptr) == 0);
    CHECK(DRIVER_CALL(cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags")(&executable, graph, 0) == 0);
    const CUstream stream = make_stream();
    CHECK(DRIVER_CALL(cuGraphLaunch, "cuGraphLaunch")(executable, handle_of(stream)) == 0);
    CHECK(cuStreamSynchronize(stream) == 0);
    CHECK(std::vector<float>(pinned, pinned + 4) == std::vector<float>{6, 7, 10, 11});
    cuda::CUDA_MEMCPY3D found{};
    CHECK(DRIVER_CALL(cuGraphMemcpyNodeGetParams, "cuGraphMemcpyNodeGetParams")(node, &found) == 0);
    CHECK((found.source.kind == kFromArray && found.source.array == array));
    CHECK((found.source.x_bytes == 8 && found.source.y == 1 && found.source.z == 0));
    CHECK((found.target.kind == kFromHost && found.target.host == pinned));
  });
}

}  // namespace driver_array_test
