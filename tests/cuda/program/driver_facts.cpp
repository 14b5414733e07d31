// What a CUDA driver answers where its documentation leaves room: which calls spoil a recording, which wait for the
// whole device, what a graph's memory does, whose functions go with whose streams, which name means which version. One
// line a fact, "section: case: answer". The same program runs on a GPU and on the simulated one;
// tests/cuda/facts_test.cpp compares the two.
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/cuda/program/driver_things.h"

namespace {

using namespace driver_facts;

constexpr int kNoGpu = 77;  // as automake has it: not looked at

unsigned kernel_lasts_ms = 2000;  // longer than any call takes

struct Call {
  const char* name;
  std::function<int(Things&)> call;
};

/// What a program may do beside a recording, or beside a kernel that does not end.
std::vector<Call> calls() {
  using T = Things&;
  return {
      {"cuMemAlloc", [](T t) { return cu("cuMemAlloc_v2", &t.freed, std::size_t{4096}); }},
      {"cuMemFree", [](T t) { return cu("cuMemFree_v2", t.freed); }},
      {"cuMemAlloc of 256 MiB", [](T t) { return cu("cuMemAlloc_v2", &t.freed, std::size_t{256} << 20); }},
      {"cuMemFree of 256 MiB", [](T t) { return cu("cuMemFree_v2", t.freed); }},
      {"cuMemHostAlloc", [](T t) { return cu("cuMemHostAlloc", &t.spare_pinned, std::size_t{4096}, 0U); }},
      {"cuMemFreeHost", [](T t) { return cu("cuMemFreeHost", t.spare_pinned); }},
      {"cuMemHostRegister",
       [](T t) { return cu("cuMemHostRegister_v2", static_cast<void*>(t.paged.data()), t.paged.size(), 0U); }},
      {"cuMemHostUnregister", [](T t) { return cu("cuMemHostUnregister", static_cast<void*>(t.paged.data())); }},
      {"cuMemAllocManaged", [](T t) { return cu("cuMemAllocManaged", &t.freed, std::size_t{4096}, 1U); }},
      {"cuMemFree of managed memory", [](T t) { return cu("cuMemFree_v2", t.freed); }},
      {"cuMemGetInfo",
       [](T) {
         std::size_t left = 0, total = 0;
         return cu("cuMemGetInfo_v2", &left, &total);
       }},
      {"cuMemAllocAsync, another stream",
       [](T t) { return cu("cuMemAllocAsync", &t.freed, std::size_t{4096}, t.other); }},
      {"cuMemFreeAsync, another stream", [](T t) { return cu("cuMemFreeAsync", t.freed, t.other); }},
      {"cuStreamCreate", [](T t) { return cu("cuStreamCreate", &t.spare, 1U); }},
      {"cuStreamDestroy", [](T t) { return cu("cuStreamDestroy_v2", t.spare); }},
      {"cuStreamQuery of another stream", [](T t) { return cu("cuStreamQuery", t.other); }},
      {"cuStreamSynchronize of another stream", [](T t) { return cu("cuStreamSynchronize", t.other); }},
      {"cuEventCreate", [](T t) { return cu("cuEventCreate", &t.spare, 0U); }},
      {"cuEventDestroy", [](T t) { return cu("cuEventDestroy_v2", t.spare); }},
      {"cuEventRecord in another stream", [](T t) { return cu("cuEventRecord", t.event, t.other); }},
      {"cuEventQuery of another stream's event", [](T t) { return cu("cuEventQuery", t.event); }},
      {"cuEventSynchronize of another stream's event", [](T t) { return cu("cuEventSynchronize", t.event); }},
      {"cuModuleLoadData", [](T t) { return cu("cuModuleLoadData", &t.spare, static_cast<const void*>(kPtx)); }},
      {"cuModuleGetFunction, a new module", [](T t) { return cu("cuModuleGetFunction", &t.fresh, t.spare, "empty"); }},
      {"cuLaunchKernel of a new module's kernel in another stream",
       [](T t) {
         return cu("cuLaunchKernel", t.fresh, 1U, 1U, 1U, 1U, 1U, 1U, 0U, t.other, static_cast<void**>(nullptr),
                   static_cast<void**>(nullptr));
       }},
      {"cuModuleUnload", [](T t) { return cu("cuModuleUnload", t.spare); }},
      {"cuGraphInstantiate", [](T t) { return cu("cuGraphInstantiateWithFlags", &t.spare, t.graph, 0ULL); }},
      {"cuGraphUpload to another stream", [](T t) { return cu("cuGraphUpload", t.executable, t.other); }},
      {"cuGraphLaunch in another stream", [](T t) { return cu("cuGraphLaunch", t.executable, t.other); }},
      {"cuGraphExecDestroy", [](T t) { return cu("cuGraphExecDestroy", t.spare); }},
      {"cuLaunchKernel in another stream",
       [](T t) {
         return cu("cuLaunchKernel", t.empty, 1U, 1U, 1U, 1U, 1U, 1U, 0U, t.other, static_cast<void**>(nullptr),
                   static_cast<void**>(nullptr));
       }},
      {"cuMemsetD32Async in another stream",
       [](T t) { return cu("cuMemsetD32Async", t.memory, 0U, std::size_t{4}, t.other); }},
      {"cuMemcpyHtoDAsync of pinned memory in another stream",
       [](T t) {
         return cu("cuMemcpyHtoDAsync_v2", t.memory, static_cast<const void*>(static_cast<char*>(t.pinned) + 64),
                   std::size_t{64}, t.other);
       }},
      {"cuMemcpyHtoDAsync of pageable memory in another stream",
       [](T t) {
         return cu("cuMemcpyHtoDAsync_v2", t.memory, static_cast<const void*>(t.plain.data()), t.plain.size(), t.other);
       }},
      {"cuMemcpyDtoHAsync to pageable memory in another stream",
       [](T t) {
         return cu("cuMemcpyDtoHAsync_v2", static_cast<void*>(t.plain.data()), t.memory, t.plain.size(), t.other);
       }},
      {"cuMemcpyHtoD of 64 bytes",
       [](T t) { return cu("cuMemcpyHtoD_v2", t.memory, static_cast<const void*>(t.plain.data()), std::size_t{64}); }},
      {"cuMemcpyHtoD of 1 MiB",
       [](T t) { return cu("cuMemcpyHtoD_v2", t.memory, static_cast<const void*>(t.plain.data()), t.plain.size()); }},
      {"cuMemcpyDtoH",
       [](T t) { return cu("cuMemcpyDtoH_v2", static_cast<void*>(t.plain.data()), t.memory, std::size_t{64}); }},
      {"cuMemcpyDtoD", [](T t) { return cu("cuMemcpyDtoD_v2", t.memory, t.memory + 4096, std::size_t{64}); }},
      {"cuMemsetD32", [](T t) { return cu("cuMemsetD32_v2", t.memory, 0U, std::size_t{4}); }},
      {"cuPointerGetAttribute",
       [](T t) {
         unsigned kind = 0;
         return cu("cuPointerGetAttribute", static_cast<void*>(&kind), 2, t.memory);
       }},
      {"cuFuncGetAttribute",
       [](T t) {
         int value = 0;
         return cu("cuFuncGetAttribute", &value, 0, t.empty);
       }},
      {"cuOccupancyMaxActiveBlocksPerMultiprocessor",
       [](T t) {
         int blocks = 0;
         return cu("cuOccupancyMaxActiveBlocksPerMultiprocessor", &blocks, t.empty, 32, std::size_t{0});
       }},
      {"cuLaunchHostFunc in another stream",
       [](T t) {
         return cu(
             "cuLaunchHostFunc", t.other, +[](void*) {}, static_cast<void*>(nullptr));
       }},
      {"cuCtxCreate", [](T t) { return cu("cuCtxCreate_v2", &t.spare, 0U, 0); }},
      {"cuCtxDestroy",
       [](T t) {
         const int code = cu("cuCtxDestroy_v2", t.spare);
         cu("cuCtxSetCurrent", t.context);
         return code;
       }},
      {"cuCtxSynchronize", [](T) { return cu("cuCtxSynchronize"); }},
      {"the default stream: cuMemsetD32Async",
       [](T t) { return cu("cuMemsetD32Async", t.memory, 0U, std::size_t{4}, static_cast<Handle>(nullptr)); }},
      {"the default stream: cuStreamSynchronize",
       [](T) { return cu("cuStreamSynchronize", static_cast<Handle>(nullptr)); }},
  };
}

void recording() {
  Things things;
  const char* const modes[] = {"global", "thread-local", "relaxed"};
  for (int mode = 0; mode < 3; ++mode) {
    for (const bool elsewhere : {false, true}) {
      for (const Call& one : calls()) {
        // Nothing that the earlier calls left is under way.
        cu("cuCtxSynchronize");
        cu("cuStreamBeginCapture_v2", things.stream, mode);
        cu("cuMemsetD32Async", things.memory, 1U, std::size_t{4}, things.stream);
        int code = 0;
        if (elsewhere) {
          std::thread([&] {
            cu("cuCtxSetCurrent", things.context);
            code = one.call(things);
          }).join();
        } else {
          code = one.call(things);
        }
        Handle graph = nullptr;
        const int ended = cu("cuStreamEndCapture", things.stream, &graph);
        if (graph != nullptr) cu("cuGraphDestroy", graph);
        std::printf("recording, %s%s: %s: %d, then the end %d\n", modes[mode], elsewhere ? ", by another thread" : "",
                    one.name, code, ended);
        // What was refused is done now, so that its opposite has something to undo.
        if (code == 900 || code == 901 || code == 906) one.call(things);
      }
    }
  }
}

/// Who comes back while the kernel runs lets it go, and the kernel says so: for sure. Who waits for it comes back when
/// its time is over by the GPU's clock.
void beside_a_kernel() {
  Things things;
  for (const Call& one : calls()) {
    things.start_spinning(kernel_lasts_ms * 1'000'000ULL);
    const int code = one.call(things);
    things.let_go();
    cu("cuCtxSynchronize");
    std::printf("beside a kernel: %s: %d, %s\n", one.name, code, things.outlasted() ? "waits for it" : "goes on");
  }
}

int add_alloc(Handle graph, AllocNode& wanted, Handle* node) {
  return cu("cuGraphAddMemAllocNode", node, graph, static_cast<const Handle*>(nullptr), std::size_t{0}, &wanted);
}

void say_graph_memory(const char* when) {
  std::uint64_t used = 0, reserved = 0;
  cu("cuDeviceGetGraphMemAttribute", 0, 0, static_cast<void*>(&used));
  cu("cuDeviceGetGraphMemAttribute", 0, 2, static_cast<void*>(&reserved));
  std::printf("graph memory: %s: %llu used, %llu reserved\n", when, static_cast<unsigned long long>(used),
              static_cast<unsigned long long>(reserved));
}

void graph_memory() {
  Things t;
  for (const int type : {0, 1, 2}) {
    Handle graph = nullptr, node = nullptr;
    cu("cuGraphCreate", &graph, 0U);
    AllocNode wanted{.type = type};
    std::printf("graph memory: an allocation's type %d: %d\n", type, add_alloc(graph, wanted, &node));
    cu("cuGraphDestroy", graph);
  }
  for (const int where : {0, 2, 3}) {
    Handle graph = nullptr, node = nullptr;
    cu("cuGraphCreate", &graph, 0U);
    AllocNode wanted{.where = where};
    std::printf("graph memory: a location of type %d: %d\n", where, add_alloc(graph, wanted, &node));
    wanted = {.device = 7};
    std::printf("graph memory: device 7, after type %d: %d\n", where, add_alloc(graph, wanted, &node));
    wanted = {.bytes = 0};
    std::printf("graph memory: 0 bytes, after type %d: %d\n", where, add_alloc(graph, wanted, &node));
    cu("cuGraphDestroy", graph);
  }
  const auto say = [](const char* what, int code) {
    std::printf("graph memory, without a free node: %s: %d\n", what, code);
  };
  Handle graph = nullptr, node = nullptr, executable = nullptr, second = nullptr;
  cu("cuGraphCreate", &graph, 0U);
  AllocNode wanted;
  say("add", add_alloc(graph, wanted, &node));
  say("free in a stream before a launch", cu("cuMemFreeAsync", wanted.address, t.other));
  say("instantiate", cu("cuGraphInstantiateWithFlags", &executable, graph, 0ULL));
  say("instantiate twice", cu("cuGraphInstantiateWithFlags", &second, graph, 0ULL));
  say_graph_memory("without a free node, instantiated");
  say("fill before a launch", cu("cuMemsetD32_v2", wanted.address, 1U, std::size_t{4}));
  say("launch", cu("cuGraphLaunch", executable, t.other));
  cu("cuStreamSynchronize", t.other);
  say_graph_memory("without a free node, launched");
  say("launch again", cu("cuGraphLaunch", executable, t.other));
  cu("cuStreamSynchronize", t.other);
  say("fill", cu("cuMemsetD32_v2", wanted.address, 1U, std::size_t{4}));
  say("free in a stream", cu("cuMemFreeAsync", wanted.address, t.other));
  cu("cuStreamSynchronize", t.other);
  say("free it twice", cu("cuMemFreeAsync", wanted.address, t.other));
  say("cuMemFree", cu("cuMemFree_v2", wanted.address));
  say("launch after that", cu("cuGraphLaunch", executable, t.other));
  cu("cuStreamSynchronize", t.other);
  // The last of this section: whatever came behind it on the H200 was answered with 719.
  say("cuMemFree after a launch", cu("cuMemFree_v2", wanted.address));
  say("destroy", cu("cuGraphExecDestroy", executable));
  say("trim", cu("cuDeviceGraphMemTrim", 0));
  say_graph_memory("without a free node, trimmed");
}

void contexts() {
  Things t;
  const auto say = [](const char* what, int code) { std::printf("two contexts: %s: %d\n", what, code); };
  Handle second = nullptr, stream = nullptr, event = nullptr, module = nullptr, function = nullptr;
  Address memory = 0;
  cu("cuCtxCreate_v2", &second, 0U, 0);
  cu("cuStreamCreate", &stream, 1U);
  cu("cuEventCreate", &event, 0U);
  cu("cuModuleLoadData", &module, static_cast<const void*>(kPtx));
  cu("cuModuleGetFunction", &function, module, "empty");
  cu("cuMemAlloc_v2", &memory, std::size_t{4096});
  const auto launch = [](Handle kernel, Handle where) {
    return cu("cuLaunchKernel", kernel, 1U, 1U, 1U, 1U, 1U, 1U, 0U, where, static_cast<void**>(nullptr),
              static_cast<void**>(nullptr));
  };
  for (const bool own : {true, false}) {
    cu("cuCtxSetCurrent", own ? second : t.context);
    std::printf("two contexts: now the %s one is current\n", own ? "second" : "first");
    say("a kernel of the first in a stream of the second", launch(t.empty, stream));
    say("a kernel of the first in a stream of the first", launch(t.empty, t.other));
    say("a kernel of the second in a stream of the second", launch(function, stream));
    say("a kernel of the first in the default stream", launch(t.empty, nullptr));
    say("an event of the first in a stream of the second", cu("cuEventRecord", t.event, stream));
    say("an event of the first in a stream of the first", cu("cuEventRecord", t.event, t.other));
    say("a stream of the second waits for an event of the first", cu("cuStreamWaitEvent", stream, t.event, 0U));
    say("query an event of the first", cu("cuEventQuery", t.event) == 0 ? 0 : cu("cuEventSynchronize", t.event));
    say("synchronize a stream of the first", cu("cuStreamSynchronize", t.other));
    say("synchronize a stream of the second", cu("cuStreamSynchronize", stream));
    say("fill memory of the first in a stream of the second",
        cu("cuMemsetD32Async", t.memory, 0U, std::size_t{4}, stream));
    say("fill memory of the second", cu("cuMemsetD32_v2", memory, 0U, std::size_t{4}));
    say("copy between them", cu("cuMemcpyDtoD_v2", t.memory, memory, std::size_t{64}));
  }
  cu("cuCtxSetCurrent", t.context);
  say("free memory of the second, the first is current", cu("cuMemFree_v2", memory));
  say("a graph of the first in a stream of the second", cu("cuGraphLaunch", t.executable, stream));
  say("destroy the second", cu("cuCtxDestroy_v2", second));
}

/// "_v2" of cuMemAlloc_v2, "_v1" of a name without a number; "-" and the status where there is none.
std::string version_of(const std::string& name, void* function, int status) {
  if (function == nullptr) return "-" + std::to_string(status);
  Dl_info info{};
  if (dladdr(function, &info) == 0 || info.dli_sname == nullptr) return "?";
  const std::string found = info.dli_sname;
  if (found == name) return "_v1";
  return found.compare(0, name.size(), name) == 0 ? found.substr(name.size()) : found;
}

void versions() {
  const char* const names[] = {
#define NAME(name) #name,
#include "tests/cuda/program/driver_names.inc"
#undef NAME
  };
  for (const char* name : names) {
    std::string said = std::string("versions: ") + name + ":";
    for (const int version : {2000, 3020, 4000, 6050, 7000, 9020, 10010, 11000, 11030, 11040, 11070, 12000, 12020,
                              12030, 12050, 12080, 13000}) {
      void* function = nullptr;
      int status = -1;
      const int code = cu("cuGetProcAddress_v2", name, &function, version, 0ULL, &status);
      said += " " + (code != 0 ? std::to_string(code) : version_of(name, function, status));
    }
    std::printf("%s\n", said.c_str());
  }
}

void answers() {
  Things t;
  const auto say = [](const char* what, int code) { std::printf("answers: %s: %d\n", what, code); };
  std::vector<char> bytes(20'000);
  say("unregister what is not registered", cu("cuMemHostUnregister", static_cast<void*>(bytes.data())));
  cu("cuMemHostRegister_v2", static_cast<void*>(bytes.data()), bytes.size(), 0U);
  say("unregister one byte behind its begin", cu("cuMemHostUnregister", static_cast<void*>(bytes.data() + 1)));
  say("unregister a page behind its begin", cu("cuMemHostUnregister", static_cast<void*>(bytes.data() + 4096)));
  say("register it twice", cu("cuMemHostRegister_v2", static_cast<void*>(bytes.data()), bytes.size(), 0U));
  say("unregister", cu("cuMemHostUnregister", static_cast<void*>(bytes.data())));
  Address address = 0;
  std::size_t pitch = 0;
  for (const std::size_t width : {std::size_t{1} << 32, std::size_t{1} << 40, SIZE_MAX}) {
    say("a pitch too wide", cu("cuMemAllocPitch_v2", &address, &pitch, width, std::size_t{1}, 4U));
  }
  say("a pitch of elements of 5 bytes",
      cu("cuMemAllocPitch_v2", &address, &pitch, std::size_t{64}, std::size_t{1}, 5U));
  say("a pitch of no rows", cu("cuMemAllocPitch_v2", &address, &pitch, std::size_t{64}, std::size_t{0}, 4U));
  Handle link = nullptr;
  const auto add = [&](const char* text) {
    return cu("cuLinkAddData_v2", link, 1, const_cast<void*>(static_cast<const void*>(text)), std::strlen(text) + 1,
              "text", 0U, static_cast<int*>(nullptr), static_cast<void**>(nullptr));
  };
  void* image = nullptr;
  std::size_t size = 0;
  cu("cuLinkCreate_v2", 0U, static_cast<int*>(nullptr), static_cast<void**>(nullptr), &link);
  say("link a broken text", add(".version 7.0\n.target sm_70\n.address_size 64\nnonsense\n"));
  say("complete after a broken text", cu("cuLinkComplete", link, &image, &size));
  cu("cuLinkDestroy", link);
  cu("cuLinkCreate_v2", 0U, static_cast<int*>(nullptr), static_cast<void**>(nullptr), &link);
  say("link nothing", cu("cuLinkComplete", link, &image, &size));
  say("add behind the end", add(kPtx));
  cu("cuLinkDestroy", link);
  cu("cuLinkCreate_v2", 0U, static_cast<int*>(nullptr), static_cast<void**>(nullptr), &link);
  say("add a text", add(kPtx));
  say("complete", cu("cuLinkComplete", link, &image, &size));
  say("complete twice", cu("cuLinkComplete", link, &image, &size));
  cu("cuLinkDestroy", link);
  Handle graph = nullptr, first = nullptr, second = nullptr;
  FillNode fill{.target = t.memory};
  cu("cuGraphCreate", &graph, 0U);
  cu("cuGraphAddMemsetNode", &first, graph, static_cast<const Handle*>(nullptr), std::size_t{0},
     static_cast<const FillNode*>(&fill), t.context);
  cu("cuGraphAddEmptyNode", &second, graph, static_cast<const Handle*>(nullptr), std::size_t{0});
  struct EdgeData {
    unsigned char from_port = 0, to_port = 0, type = 0, reserved[5] = {};
  } data;
  const auto edge = [&](Handle from, Handle to) {
    return cu("cuGraphAddDependencies_v2", graph, static_cast<const Handle*>(&from), static_cast<const Handle*>(&to),
              static_cast<const EdgeData*>(&data), std::size_t{1});
  };
  data.type = 1;
  say("a programmatic edge from a fill", edge(first, second));
  data.type = 0, data.from_port = 1;
  say("an edge from port 1 of a fill", edge(first, second));
  data = {};
  say("an edge", edge(first, second));
  say("the same edge", edge(first, second));
  say("an edge to itself", edge(first, first));
  say("a circle", edge(second, first));
  Handle executable = nullptr;
  say("instantiate a circle", cu("cuGraphInstantiateWithFlags", &executable, graph, 0ULL));
  cu("cuStreamBeginCapture_v2", t.stream, 2);
  cu("cuMemsetD32Async", t.memory, 1U, std::size_t{4}, t.stream);
  cu("cuEventRecord", t.event, t.stream);
  say("query a recorded event", cu("cuEventQuery", t.event));
  Handle recorded = nullptr;
  say("and the end of that recording", cu("cuStreamEndCapture", t.stream, &recorded));
  cu("cuStreamBeginCapture_v2", t.stream, 2);
  cu("cuMemsetD32Async", t.memory, 1U, std::size_t{4}, t.stream);
  say("free in a recording what no graph gave", cu("cuMemFreeAsync", t.memory, t.stream));
  say("the recording's stream is asked", cu("cuStreamQuery", t.stream));
  say("and the end of that recording", cu("cuStreamEndCapture", t.stream, &recorded));
  struct alignas(8) StreamValue {
    char bytes[64];
  };
  for (const int attribute : {0, 1, 2, 3, 4, 5, 8, 9, 10, 77}) {
    StreamValue value{}, wrong{};
    std::memset(wrong.bytes, 0x77, sizeof wrong.bytes);
    const int got = cu("cuStreamGetAttribute", t.other, attribute, &value);
    const int set = cu("cuStreamSetAttribute", t.other, attribute, static_cast<const StreamValue*>(&value));
    const int bad = cu("cuStreamSetAttribute", t.other, attribute, static_cast<const StreamValue*>(&wrong));
    int number = 0;
    std::memcpy(&number, value.bytes, 4);
    std::printf("answers: stream attribute %d: got %d (%d), set to that %d, to nonsense %d\n", attribute, got, number,
                set, bad);
  }
}

}  // namespace

int main(int argc, char** argv) {
  driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr || cu("cuInit", 0U) != 0) {
    std::fprintf(stderr, "no CUDA driver, or no GPU: %s\n", driver == nullptr ? dlerror() : "cuInit");
    return kNoGpu;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  // Each section in a process of its own: on a GPU an error may stay in a context.
  const std::string wanted = argc > 1 ? argv[1] : "";
  if (argc > 2) kernel_lasts_ms = static_cast<unsigned>(std::strtoul(argv[2], nullptr, 10));
  const std::pair<const char*, void (*)()> sections[] = {{"versions", versions},         {"answers", answers},
                                                         {"recording", recording},       {"contexts", contexts},
                                                         {"graph_memory", graph_memory}, {"beside", beside_a_kernel}};
  for (const auto& [name, section] : sections) {
    if (wanted != name) continue;
    section();
    return 0;
  }
  std::fprintf(stderr,
               "usage: cuda-driver-facts versions|answers|recording|contexts|graph_memory|beside [MILLISECONDS]\n");
  return 2;
}
