/* A program that knows nccl.h and nothing else of the libraries below it, whose ranks take minutes over something else
 * between any two calls, as those do that load a model. STORY says which: "late" has each rank come later than the one
 * before it, "rank 0 last" the other way round; in "orphans" rank 0's machine loses its power while the others wait,
 * and in "abort" a rank gives up. */
#include <nccl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NCCL(call)                                                                                                \
  do {                                                                                                            \
    const ncclResult_t result = call;                                                                             \
    if (result != ncclSuccess) {                                                                                  \
      fprintf(stderr, "rank %d: %s: %s (%s)\n", rank, #call, ncclGetErrorString(result), ncclGetLastError(NULL)); \
      return 1;                                                                                                   \
    }                                                                                                             \
  } while (0)

static int rank, world;

/* What a program does that does not call us. */
static void be_busy(int seconds) { poll(NULL, 0, seconds * 1000); }

static int exchange(ncclComm_t comm, int peer) {
  const int sent = rank;
  int received = -1;
  NCCL(ncclGroupStart());
  NCCL(ncclSend(&sent, 1, ncclInt, peer, comm, NULL));
  NCCL(ncclRecv(&received, 1, ncclInt, peer, comm, NULL));
  NCCL(ncclGroupEnd());
  if (received == peer) return 0;
  fprintf(stderr, "rank %d: %d instead of %d arrived\n", rank, received, peer);
  return 1;
}

static int sum_of_ranks(ncclComm_t comm) {
  int sum = rank;
  NCCL(ncclAllReduce(&sum, &sum, 1, ncclInt, ncclSum, comm, NULL));
  if (sum == world * (world - 1) / 2) return 0;
  fprintf(stderr, "rank %d: the sum is %d\n", rank, sum);
  return 1;
}

/* Both communicators are of one id. */
static int run_apart(ncclUniqueId id, int before) {
  ncclComm_t first = NULL, second = NULL;
  be_busy(before);
  NCCL(ncclCommInitRank(&first, world, id, rank));
  if (rank == 3) be_busy(200);
  if (rank >= 2 && exchange(first, 5 - rank) != 0) return 1;
  NCCL(ncclCommInitRank(&second, world, id, rank));
  if (sum_of_ranks(second) != 0) return 1;
  if (rank == 1) be_busy(200); /* rank 0 is in ncclCommDestroy */
  if ((rank == 1 || rank == 2) && exchange(first, 3 - rank) != 0) return 1;
  NCCL(ncclCommDestroy(first));
  NCCL(ncclCommDestroy(second));
  NCCL(ncclCommInitRank(&first, world, id, rank));
  if (sum_of_ranks(first) != 0) return 1;
  NCCL(ncclCommDestroy(first));
  fprintf(stderr, "rank %d: all is right\n", rank);
  return 0;
}

static int wait_for_ever(ncclUniqueId id) {
  ncclComm_t comm = NULL;
  NCCL(ncclCommInitRank(&comm, world, id, rank));
  if (rank == 0) be_busy(1000000);
  int number = 0;
  const ncclResult_t result = ncclRecv(&number, 1, ncclInt, rank % 3 + 1, comm, NULL);
  fprintf(stderr, "rank %d: the receive ends: %s\n", rank, ncclGetErrorString(result));
  ncclCommAbort(comm);
  return 0;
}

/* Rank 1 gives up; the others call nothing that would tell them, and only ask. */
static int ask_about_others(ncclUniqueId id) {
  ncclComm_t comm = NULL;
  ncclResult_t state = ncclSuccess;
  NCCL(ncclCommInitRank(&comm, world, id, rank));
  if (rank == 1) be_busy(10);
  for (int tries = 0; rank != 1 && state == ncclSuccess && tries < 60; ++tries) {
    be_busy(1);
    NCCL(ncclCommGetAsyncError(comm, &state));
  }
  if (rank != 1) fprintf(stderr, "rank %d: %s\n", rank, ncclGetErrorString(state));
  ncclCommAbort(comm);
  return 0;
}

int main(void) {
  rank = atoi(getenv("RANK"));
  world = atoi(getenv("WORLD_SIZE"));
  const char* story = getenv("STORY");
  ncclUniqueId id;
  NCCL(ncclGetUniqueId(&id));
  if (strcmp(story, "orphans") == 0) return wait_for_ever(id);
  if (strcmp(story, "abort") == 0) return ask_about_others(id);
  return run_apart(id, 100 * (strcmp(story, "late") == 0 ? rank : world - 1 - rank));
}
