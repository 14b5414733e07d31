#ifndef MESHBED_SIM_CUDA_MESHBED_CUDA_H
#define MESHBED_SIM_CUDA_MESHBED_CUDA_H
/* How a program gives the simulated GPU a function of its own for a kernel, in place of the kernel's PTX: the kernel's
 * name, as the module has it ("add", "_Z3addPfi"), stands for a C function that does what the kernel does.
 *
 * The simulated libcuda.so.1 exports meshbedCudaRegisterKernel(); no other libcuda.so.1 does. A program that is to run
 * on a real GPU, too, looks it up:
 *   int (*add)(const MeshbedKernel*) = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "meshbedCudaRegisterKernel");
 *   if (add != NULL) add(&kernel);
 * A kernel belongs to the process that registered it; a second one of the same name takes the first one's place. A
 * launch of a kernel that has neither PTX nor such a function is CUDA_ERROR_NO_BINARY_FOR_GPU and one warning with its
 * name.
 *
 * The function runs when the simulated kernel ends, once for each launch: code that does not wait for the kernel sees
 * the earlier bytes. The function must not block or call CUDA. */

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct MeshbedLaunch {
  unsigned grid[3], block[3];
  unsigned shared_bytes;
  int device;
  const void* const* arguments; /* argument i is at arguments[i], as the launch had it */
  void* user;                   /* MeshbedKernel::user */
  void* simulator;
  /* What the GPU sees at a device address, or at one of pinned, registered or managed memory. NULL: not all of these
   * bytes are this process's; the launch then fails with CUDA_ERROR_ILLEGAL_ADDRESS, for any result of the function. */
  void* (*memory)(const struct MeshbedLaunch* launch, unsigned long long address, size_t size_bytes);
} MeshbedLaunch;

/* The cost of a launch, all blocks together; models/gpu.h describes its use. */
typedef struct MeshbedCost {
  unsigned long long memory_bytes;
  unsigned long long float32_operations;
  unsigned long long wave_ns; /* at least, for each wave of resident blocks */
} MeshbedCost;

typedef struct MeshbedKernel {
  size_t size_bytes; /* of this struct */
  const char* name;
  unsigned argument_count;
  const unsigned* argument_bytes;          /* one each; natural alignment is assumed where they stand packed */
  int (*run)(const MeshbedLaunch* launch); /* 0, or the CUresult that the launch ends with */
  void (*cost)(const MeshbedLaunch* launch, MeshbedCost* cost); /* NULL: it costs its launch alone */
  void* user;
  unsigned flags; /* 0 */
} MeshbedKernel;

/* CUDA_SUCCESS or CUDA_ERROR_INVALID_VALUE; copies what `kernel` points at, except `user`. */
int meshbedCudaRegisterKernel(const MeshbedKernel* kernel);

/* The clock of the simulated host, for a program that measures: the machine's own clock shows how long the interpreter
 * took. The calling thread's own code takes `advance_ps` more (0 or more), in which the device goes on; then it is
 * *now_ps, from some beginning, in picoseconds. A loop that looks at memory which a kernel writes calls it with the
 * time that one look is to take. CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE, or CUDA_ERROR_NO_DEVICE outside a simulation.
 */
int meshbedCudaHostClock(long long advance_ps, long long* now_ps);

#ifdef __cplusplus
}
#endif
#endif
