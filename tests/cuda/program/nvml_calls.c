// What a monitoring program asks of NVML, with nothing of the simulator in it.
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static void *nvml, *cuda;
#define NVML(name, ...) ((int (*)(__VA_ARGS__))dlsym(nvml, #name))
#define CUDA(name, ...) ((int (*)(__VA_ARGS__))dlsym(cuda, #name))

static const char* text(int result) { return ((const char* (*)(int))dlsym(nvml, "nvmlErrorString"))(result); }

static void describe(unsigned index) {
  void* device = 0;
  char name[96] = "?";
  int major = 0, minor = 0;
  unsigned architecture = 0, generation = 0, width = 0;
  NVML(nvmlDeviceGetHandleByIndex_v2, unsigned, void**)(index, &device);
  NVML(nvmlDeviceGetName, void*, char*, unsigned)(device, name, sizeof(name));
  NVML(nvmlDeviceGetCudaComputeCapability, void*, int*, int*)(device, &major, &minor);
  NVML(nvmlDeviceGetArchitecture, void*, unsigned*)(device, &architecture);
  printf("%u: %s, compute capability %d.%d, architecture %u, PCIe generation", index, name, major, minor, architecture);
  const int result = NVML(nvmlDeviceGetMaxPcieLinkGeneration, void*, unsigned*)(device, &generation);
  NVML(nvmlDeviceGetMaxPcieLinkWidth, void*, unsigned*)(device, &width);
  if (result == 0) printf(" %u of %u lanes\n", generation, width);
  if (result != 0) printf(": %s\n", text(result));
}

int main(void) {
  nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  cuda = dlopen("libcuda.so.1", RTLD_NOW);
  if (nvml == 0 || cuda == 0) return puts(dlerror()), 1;
  char driver[80], own[80];
  int version = 0;
  NVML(nvmlInit, void)();
  NVML(nvmlSystemGetDriverVersion, char*, unsigned)(driver, sizeof(driver));
  NVML(nvmlSystemGetNVMLVersion, char*, unsigned)(own, sizeof(own));
  NVML(nvmlSystemGetCudaDriverVersion_v2, int*)(&version);
  printf("versions: driver %s, NVML %s, CUDA %d\n", driver, own, version);
  describe(0);
  describe(1);

  void *device = 0, *other = 0, *context = 0;
  NVML(nvmlDeviceGetHandleByIndex_v2, unsigned, void**)(0, &device);
  NVML(nvmlDeviceGetHandleByIndex_v2, unsigned, void**)(1, &other);
  struct { unsigned long long total, free, used; } before, after;
  NVML(nvmlDeviceGetMemoryInfo, void*, void*)(device, &before);
  unsigned long long address = 0, total = 0;
  CUDA(cuInit, unsigned)(0);
  CUDA(cuDevicePrimaryCtxRetain, void**, int)(&context, 0);
  CUDA(cuCtxSetCurrent, void*)(context);
  CUDA(cuMemAlloc_v2, unsigned long long*, size_t)(&address, 1 << 20);
  CUDA(cuDeviceTotalMem_v2, unsigned long long*, int)(&total, 0);
  NVML(nvmlDeviceGetMemoryInfo, void*, void*)(device, &after);
  printf("used %llu, then %llu, total %s\n", before.used, after.used,
         total == after.total && after.free + after.used == total ? "as CUDA's" : "another one");

  struct { char legacy[16]; unsigned numbers[5]; char bus[32]; } pci;
  unsigned index = 9;
  void* again = 0;
  NVML(nvmlDeviceGetPciInfo_v3, void*, void*)(other, &pci);
  NVML(nvmlDeviceGetIndex, void*, unsigned*)(other, &index);
  NVML(nvmlDeviceGetHandleByPciBusId_v2, const char*, void**)(pci.bus, &again);
  printf("bus %s, by index %u, by its name %s\n", pci.bus, index, again == other ? "the same" : "another one");

  struct { unsigned field, scope; long long times[2]; int type, result; unsigned long long value; } field = {91};
  int state = 7, status[2] = {7, 7};
  NVML(nvmlDeviceGetFieldValues, void*, int, void*)(device, 1, &field);
  NVML(nvmlDeviceGetNvLinkState, void*, unsigned, int*)(device, 0, &state);
  printf("links %llu, state %d, past the last: %s, remote: %s\n", field.value, state,
         text(NVML(nvmlDeviceGetNvLinkState, void*, unsigned, int*)(device, 99, &state)),
         text(NVML(nvmlDeviceGetNvLinkRemotePciInfo_v2, void*, unsigned, void*)(device, 0, &pci)));
  NVML(nvmlDeviceGetP2PStatus, void*, void*, int, int*)(device, device, 0, status);
  NVML(nvmlDeviceGetP2PStatus, void*, void*, int, int*)(device, other, 0, status + 1);
  printf("peers: itself %d, the other %d\n", status[0], status[1]);

  struct { unsigned version; unsigned char cluster[16]; int status; unsigned clique; unsigned char state; unsigned health; }
      fabric;
  memset(&fabric, 0x5a, sizeof(fabric));
  fabric.version = sizeof(fabric) | 2U << 24U;
  unsigned current = 0, pending = 0;
  NVML(nvmlDeviceGetGpuFabricInfoV, void*, void*)(device, &fabric);
  printf("fabric state %d, MIG: %s, platform: %s\n", fabric.state,
         text(NVML(nvmlDeviceGetMigMode, void*, unsigned*, unsigned*)(device, &current, &pending)),
         text(NVML(nvmlDeviceGetPlatformInfo, void*, void*)(device, &fabric)));

  void* set = 0;
  unsigned long long types = 0;
  char data[40];
  NVML(nvmlEventSetCreate, void**)(&set);
  NVML(nvmlDeviceGetSupportedEventTypes, void*, unsigned long long*)(device, &types);
  NVML(nvmlDeviceRegisterEvents, void*, unsigned long long, void*)(device, types, set);
  printf("an event: %s\n", text(NVML(nvmlEventSetWait_v2, void*, void*, unsigned)(set, data, 5)));
  NVML(nvmlEventSetFree, void*)(set);

  unsigned temperature = 0;
  struct { unsigned version; unsigned long long numbers[4]; } memory = {1};
  printf("short buffer: %s, unknown device: %s, wrong version: %s\n",
         text(NVML(nvmlDeviceGetName, void*, char*, unsigned)(device, data, 4)),
         text(NVML(nvmlDeviceGetIndex, void*, unsigned*)(&set, &index)),
         text(NVML(nvmlDeviceGetMemoryInfo_v2, void*, void*)(device, &memory)));
  printf("temperature: %s\n",
         text(NVML(nvmlDeviceGetTemperature, void*, int, unsigned*)(device, 0, &temperature)));
  return NVML(nvmlShutdown, void)();
}
