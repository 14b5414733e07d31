/* Three ranks, of which rank 2 calls something else, or leaves, as argv[1] names it; each prints how its call failed.
 */
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kCount = 1 << 18, kRanks = 3 };

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const char* how = argv[1];
  const int rank = atoi(getenv("RANK"));
  float *from = calloc(kCount, sizeof *from), *to = calloc(kRanks * kCount, sizeof *to);
  ncclUniqueId id;
  ncclComm_t comm;
  if (ncclGetUniqueId(&id) != ncclSuccess || ncclCommInitRank(&comm, kRanks, id, rank) != ncclSuccess) return 3;
  const int differs = rank == 2;
  if (differs && !strcmp(how, "leaves")) return ncclCommDestroy(comm) != ncclSuccess;
  ncclResult_t result = ncclSuccess;
  if (!strcmp(how, "root")) {
    result = ncclBroadcast(from, to, kCount, ncclFloat, differs ? 1 : 0, comm, NULL);
  } else if (differs && !strcmp(how, "collective")) {
    result = ncclBroadcast(from, to, kCount, ncclFloat, 0, comm, NULL);
  } else {
    if (!differs && !strcmp(how, "skips")) result = ncclBroadcast(from, to, kCount, ncclFloat, 0, comm, NULL);
    if (result == ncclSuccess) {
      result = ncclAllReduce(from, to, differs && !strcmp(how, "count") ? kCount / 2 : kCount,
                             differs && !strcmp(how, "type") ? ncclInt32 : ncclFloat32, ncclSum, comm, NULL);
    }
  }
  if (result == ncclSuccess) return 0;
  printf("failed: %s\n", ncclGetLastError(comm));
  fflush(stdout);
  return 4;
}
