/* A program of nccl.h and the CUDA driver, what every rank of a job runs: every collective on GPU memory, with every
 * type and operation, in sizes from one element to LARGEST_BYTES (1 MiB), then in two streams at once and in a graph
 * of both. It relies only on what NVIDIA's NCCL guarantees, so that the same file runs on NCCL and on the drop-in
 * (docs/nccl-dropin.md, "With the real NCCL on one GPU"). Numbers are such that no order of a sum rounds: every result
 * is known bit by bit, and so is the memory behind it, which must not change. Rank 0 prints a line for each; a line
 * begins before its work, so that where it stops can be seen. The exit status is 0 where every bit is right.
 *
 * RANK and WORLD_SIZE say who we are, CUDA device LOCAL_GPU (0) is ours, PART (all) picks one of `parts`,
 * QUIET=1 leaves the lines out. */
#include <nccl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/cuda/program/cuda_calls.h"
#include "tests/dropin/program/numbers.h"

#define NCCL(call)                                                                                                \
  do {                                                                                                            \
    const ncclResult_t result = call;                                                                             \
    if (result != ncclSuccess) {                                                                                  \
      fprintf(stderr, "rank %d: %s: %s (%s)\n", rank, #call, ncclGetErrorString(result), ncclGetLastError(NULL)); \
      return 1;                                                                                                   \
    }                                                                                                             \
  } while (0)
#define CUDA(call)                                                       \
  do {                                                                   \
    const CUresult result = call;                                        \
    if (result != 0) {                                                   \
      fprintf(stderr, "rank %d: %s is error %d\n", rank, #call, result); \
      return 1;                                                          \
    }                                                                    \
  } while (0)
#define TRY(step)              \
  do {                         \
    if ((step) != 0) return 1; \
  } while (0)

enum { kGuard = 64, kStreams = 20, kLaunches = 5, kRanksMax = 16 };

static int rank, world, is_quiet;
static size_t largest;

/* ---- memory ---- */

struct buffer {
  char* host; /* pinned */
  CUdeviceptr device;
  size_t bytes;
};

static int make(struct buffer* buffer, size_t bytes) {
  void* host = NULL;
  buffer->bytes = bytes + kGuard;
  CUDA(cuMemHostAlloc(&host, buffer->bytes, 0));
  CUDA(cuMemAlloc_v2(&buffer->device, buffer->bytes));
  buffer->host = host;
  return 0;
}

static int drop(const struct buffer* buffer) {
  CUDA(cuMemFree_v2(buffer->device));
  CUDA(cuMemFreeHost(buffer->host));
  return 0;
}

static int put(const struct buffer* buffer, size_t bytes, CUstream stream) {
  CUDA(cuMemcpyHtoDAsync_v2(buffer->device, buffer->host, bytes, stream));
  return 0;
}

static int get(const struct buffer* buffer, size_t bytes, CUstream stream) {
  CUDA(cuMemcpyDtoHAsync_v2(buffer->host, buffer->device, bytes, stream));
  return 0;
}

static void* there(const struct buffer* buffer, size_t offset) { return (void*)(buffer->device + offset); }

static int same(const char* what, const struct kind* kind, const char* seen, const char* expected, size_t bytes) {
  if (memcmp(seen, expected, bytes) == 0) return 0;
  size_t at = 0, wrong = 0, last = 0;
  for (size_t i = bytes; i-- > 0;) {
    if (seen[i] == expected[i]) continue;
    if (wrong++ == 0) last = i;
    at = i;
  }
  const size_t element = at / (size_t)kind->bytes;
  uint64_t is = 0, should = 0;
  memcpy(&is, seen + element * kind->bytes, (size_t)kind->bytes);
  memcpy(&should, expected + element * kind->bytes, (size_t)kind->bytes);
  fprintf(stderr, "rank %d: %s %s: element %zu is 0x%llx, not 0x%llx; %zu bytes are wrong, up to element %zu of %zu\n",
          rank, what, kind->name, element, (unsigned long long)is, (unsigned long long)should, wrong,
          last / (size_t)kind->bytes, bytes / (size_t)kind->bytes);
  return 1;
}

static double now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void tell(const char* text) {
  if (rank != 0 || is_quiet) return;
  fputs(text, stdout);
  fflush(stdout);
}

/* ---- the collectives ---- */

enum call {
  kAllReduce,
  kBroadcast,
  kReduce,
  kAllGather,
  kReduceScatter,
  kSendRecv,
  kAllToAll,
  kGroupedAllToAll,
  kGather,
  kScatter,
  kCalls
};
static const char* const call_names[] = {"all_reduce",     "broadcast",        "reduce",   "all_gather",
                                         "reduce_scatter", "send and receive", "alltoall", "all to all of sends",
                                         "gather",         "scatter"};
static int reduces(enum call call) { return call == kAllReduce || call == kReduce || call == kReduceScatter; }
/* Not the first rank, and another one each time. */
static int root_of(enum call call) { return ((int)call + 1) % world; }

/* `count` elements are a block; the shape of a call in blocks. */
static size_t blocks_sent(enum call call) {
  const int all = call == kReduceScatter || call == kAllToAll || call == kGroupedAllToAll || call == kScatter;
  return all ? (size_t)world : 1;
}
static size_t blocks_received(enum call call) {
  const int all = call == kAllGather || call == kAllToAll || call == kGroupedAllToAll || call == kGather;
  return all ? (size_t)world : 1;
}

static int start(enum call call, const struct kind* kind, ncclRedOp_t op, size_t count, const struct buffer* send,
                 const struct buffer* recv, ncclComm_t comm, CUstream stream) {
  void* const from = there(send, 0);
  void* const to = there(recv, 0);
  const size_t block = count * (size_t)kind->bytes;
  const int root = root_of(call);
  switch (call) {
    case kAllReduce:
      NCCL(ncclAllReduce(from, to, count, kind->type, op, comm, stream));
      break;
    case kBroadcast:
      NCCL(ncclBroadcast(from, to, count, kind->type, root, comm, stream));
      break;
    case kReduce:
      NCCL(ncclReduce(from, to, count, kind->type, op, root, comm, stream));
      break;
    case kAllGather:
      NCCL(ncclAllGather(from, to, count, kind->type, comm, stream));
      break;
    case kReduceScatter:
      NCCL(ncclReduceScatter(from, to, count, kind->type, op, comm, stream));
      break;
    case kSendRecv:
      NCCL(ncclGroupStart());
      NCCL(ncclSend(from, count, kind->type, (rank + 1) % world, comm, stream));
      NCCL(ncclRecv(to, count, kind->type, (rank + world - 1) % world, comm, stream));
      NCCL(ncclGroupEnd());
      break;
    case kAllToAll:
      NCCL(ncclAlltoAll(from, to, count, kind->type, comm, stream));
      break;
    case kGroupedAllToAll:
      NCCL(ncclGroupStart());
      for (int peer = 0; peer < world; ++peer) {
        NCCL(ncclSend(there(send, (size_t)peer * block), count, kind->type, peer, comm, stream));
        NCCL(ncclRecv(there(recv, (size_t)peer * block), count, kind->type, peer, comm, stream));
      }
      NCCL(ncclGroupEnd());
      break;
    case kGather:
      NCCL(ncclGather(from, to, count, kind->type, root, comm, stream));
      break;
    case kScatter:
      NCCL(ncclScatter(from, to, count, kind->type, root, comm, stream));
      break;
    case kCalls:
      break;
  }
  return 0;
}

/* What is to stand in recv; false: nothing, as we are not the root. */
static int expect(enum call call, const struct kind* kind, ncclRedOp_t op, int round, size_t count, char* to) {
  const size_t block = count * (size_t)kind->bytes, mine = (size_t)rank * count;
  const int root = root_of(call);
  switch (call) {
    case kAllReduce:
      combine(kind, op, world, round, 0, count, to);
      break;
    case kBroadcast:
      give(kind, op, root, round, 0, count, to);
      break;
    case kReduce:
      combine(kind, op, world, round, 0, count, to);
      break;
    case kReduceScatter:
      combine(kind, op, world, round, mine, count, to);
      break;
    case kSendRecv:
      give(kind, op, (rank + world - 1) % world, round, 0, count, to);
      break;
    case kScatter:
      give(kind, op, root, round, mine, count, to);
      break;
    case kAllGather:
    case kGather:
      for (int r = 0; r < world; ++r) give(kind, op, r, round, 0, count, to + (size_t)r * block);
      break;
    case kAllToAll:
    case kGroupedAllToAll:
      for (int r = 0; r < world; ++r) give(kind, op, r, round, mine, count, to + (size_t)r * block);
      break;
    case kCalls:
      break;
  }
  return (call != kReduce && call != kGather) || rank == root;
}

/* One call `repeats` times over, each with other numbers; the first one makes the connections. */
static int run(enum call call, const struct kind* kind, ncclRedOp_t op, size_t count, int repeats, ncclComm_t comm,
               CUstream stream) {
  struct buffer send, recv;
  const size_t block = count * (size_t)kind->bytes;
  const size_t sent = blocks_sent(call) * block, received = blocks_received(call) * block;
  char line[160];
  snprintf(line, sizeof line, "%-20s %-8s %-4s %10zu bytes:", call_names[call], kind->name,
           reduces(call) ? op_names[op] : "", block);
  tell(line);
  TRY(make(&send, sent) || make(&recv, received));
  char* const expected = malloc(recv.bytes);
  if (expected == NULL) return 1;
  for (int round = 0; round < repeats; ++round) {
    give(kind, op, rank, round, 0, sent / (size_t)kind->bytes, send.host);
    memset(recv.host, 0xA5, recv.bytes);
    memset(expected, 0xA5, recv.bytes);
    TRY(put(&send, sent, stream) || put(&recv, recv.bytes, stream));
    CUDA(cuStreamSynchronize(stream));
    const double begun = now_us();
    TRY(start(call, kind, op, count, &send, &recv, comm, stream));
    CUDA(cuStreamSynchronize(stream));
    const double took = now_us() - begun;
    TRY(get(&recv, recv.bytes, stream));
    CUDA(cuStreamSynchronize(stream));
    if (expect(call, kind, op, round, count, expected) == 0) memcpy(expected, recv.host, received);
    TRY(same(call_names[call], kind, recv.host, expected, recv.bytes));
    snprintf(line, sizeof line, " %.0f us", took);
    tell(line);
  }
  tell(" right\n");
  free(expected);
  return drop(&send) || drop(&recv);
}

static int sizes(ncclComm_t comm, ncclComm_t other, CUstream one, CUstream two) {
  (void)other;
  (void)two;
  static const size_t kBytes[] = {4, 4044, 257 * 1024 + 12, 4 * 1024 * 1024 + 20, 32 * 1024 * 1024};
  for (size_t s = 0; s < sizeof kBytes / sizeof kBytes[0] && kBytes[s] <= largest; ++s) {
    for (int call = 0; call < kCalls; ++call) {
      /* A block is what is named, but for calls that have a block for every rank. */
      const size_t blocks = blocks_sent(call) > blocks_received(call) ? blocks_sent(call) : blocks_received(call);
      size_t count = kBytes[s] / 4 / blocks;
      if (count == 0) count = 1;
      if (kBytes[s] < 4 * 1024 * 1024) TRY(run(call, &kinds[kInt32], ncclSum, count, 2, comm, one));
      TRY(run(call, &kinds[kFloat32], ncclSum, count, 2, comm, one));
    }
  }
  return 0;
}

static int types(ncclComm_t comm, ncclComm_t other, CUstream one, CUstream two) {
  (void)other;
  (void)two;
  for (int kind = 0; kind < kKinds; ++kind) {
    for (int op = ncclSum; op <= ncclAvg; ++op) {
      /* Which way an average of whole numbers rounds, nccl.h does not say; that of three ranks is no real number's. */
      if (op == ncclAvg && (kinds[kind].form != kReal || (world & (world - 1)) != 0)) continue;
      TRY(run(kAllReduce, &kinds[kind], (ncclRedOp_t)op, 10007, 1, comm, one));
    }
    TRY(run(kReduceScatter, &kinds[kind], ncclSum, 1009, 1, comm, one));
  }
  return 0;
}

/* Two communicators, each in a stream of its own; half of the ranks begin with the other one, without waits. */
static int side_by_side(ncclComm_t comm, ncclComm_t other, CUstream one, CUstream two) {
  enum { kCount = 30011, kBlock = 1009, kRounds = 8 };
  const struct kind* const kind = &kinds[kFloat32];
  struct buffer numbers, sums, mine, all;
  tell("two streams of two communicators:");
  TRY(make(&numbers, kCount * 4) || make(&sums, kCount * 4) || make(&mine, kBlock * 4));
  TRY(make(&all, (size_t)world * kBlock * 4));
  char* const expected = malloc(sums.bytes + all.bytes);
  if (expected == NULL) return 1;
  give(kind, ncclSum, rank, 0, 0, kCount, numbers.host);
  give(kind, ncclSum, rank, 1, 0, kBlock, mine.host);
  for (int round = 0; round < kRounds; ++round) {
    for (int half = 0; half < 2; ++half) {
      if ((rank + round + half) % 2 == 0) {
        TRY(put(&numbers, kCount * 4, one) || start(kAllReduce, kind, ncclSum, kCount, &numbers, &sums, comm, one));
        TRY(get(&sums, kCount * 4, one));
      } else {
        TRY(put(&mine, kBlock * 4, two) || start(kAllGather, kind, ncclSum, kBlock, &mine, &all, other, two));
        TRY(get(&all, (size_t)world * kBlock * 4, two));
      }
    }
  }
  CUDA(cuStreamSynchronize(one));
  CUDA(cuStreamSynchronize(two));
  expect(kAllReduce, kind, ncclSum, 0, kCount, expected);
  TRY(same("all_reduce of the first stream", kind, sums.host, expected, kCount * 4));
  expect(kAllGather, kind, ncclSum, 1, kBlock, expected);
  TRY(same("all_gather of the second stream", kind, all.host, expected, (size_t)world * kBlock * 4));
  tell(" right\n");
  free(expected);
  return drop(&numbers) || drop(&sums) || drop(&mine) || drop(&all);
}

/* A graph of calls in two streams, launched again and again, each time with other numbers; behind the last launch a
 * call that is no graph's. */
static int graph(ncclComm_t comm, ncclComm_t other, CUstream one, CUstream two) {
  enum { kCount = 30011, kBlock = 1009 };
  const struct kind* const kind = &kinds[kFloat32];
  struct buffer numbers, sums, mine, all, moved;
  CUgraph recorded;
  CUgraphExec executable;
  CUevent forked, joined;
  char line[64];
  tell("a graph of four calls in two streams:");
  TRY(make(&numbers, kCount * 4) || make(&sums, kCount * 4) || make(&mine, kBlock * 4));
  TRY(make(&all, (size_t)world * kBlock * 4) || make(&moved, (size_t)world * kBlock * 4));
  char* const expected = malloc(sums.bytes + all.bytes);
  if (expected == NULL) return 1;
  CUDA(cuEventCreate(&forked, 2));
  CUDA(cuEventCreate(&joined, 2));
  CUDA(cuStreamBeginCapture_v2(one, 0));
  CUDA(cuEventRecord(forked, one));
  CUDA(cuStreamWaitEvent(two, forked, 0));
  TRY(put(&numbers, kCount * 4, one) || put(&mine, kBlock * 4, two));
  TRY(start(kAllReduce, kind, ncclSum, kCount, &numbers, &sums, comm, one));
  TRY(start(kAllGather, kind, ncclSum, kBlock, &mine, &all, other, two));
  TRY(start(kGroupedAllToAll, kind, ncclSum, kBlock, &all, &moved, other, two));
  TRY(start(kAllReduce, kind, ncclMax, kCount, &numbers, &numbers, comm, one));
  TRY(get(&sums, kCount * 4, one) || get(&numbers, kCount * 4, one));
  TRY(get(&all, (size_t)world * kBlock * 4, two) || get(&moved, (size_t)world * kBlock * 4, two));
  CUDA(cuEventRecord(joined, two));
  CUDA(cuStreamWaitEvent(one, joined, 0));
  CUDA(cuStreamEndCapture(one, &recorded));
  CUDA(cuGraphInstantiateWithFlags(&executable, recorded, 0));
  for (int launch = 1; launch <= kLaunches; ++launch) {
    give(kind, ncclSum, rank, launch, 0, kCount, numbers.host);
    give(kind, ncclSum, rank, 100 + launch, 0, kBlock, mine.host);
    const double begun = now_us();
    CUDA(cuGraphLaunch(executable, one));
    if (launch == kLaunches) {
      TRY(start(kAllReduce, kind, ncclMin, kCount, &sums, &sums, comm, one) || get(&sums, kCount * 4, one));
    }
    CUDA(cuStreamSynchronize(one));
    snprintf(line, sizeof line, " %.0f us", now_us() - begun);
    tell(line);
    /* All ranks have the same sums, so that their minimum is the sum. */
    combine(kind, ncclSum, world, launch, 0, kCount, expected);
    TRY(same("a graph's sum", kind, sums.host, expected, kCount * 4));
    combine(kind, ncclMax, world, launch, 0, kCount, expected);
    TRY(same("a graph's maximum in place", kind, numbers.host, expected, kCount * 4));
    for (int r = 0; r < world; ++r) {
      give(kind, ncclSum, r, 100 + launch, 0, kBlock, expected + (size_t)r * kBlock * 4);
    }
    TRY(same("a graph's all_gather", kind, all.host, expected, (size_t)world * kBlock * 4));
    /* Block r of every rank's result comes from rank r. */
    for (int s = 0; s < world; ++s) {
      give(kind, ncclSum, rank, 100 + launch, 0, kBlock, expected + (size_t)s * kBlock * 4);
    }
    TRY(same("a graph's all to all", kind, moved.host, expected, (size_t)world * kBlock * 4));
  }
  CUDA(cuGraphExecDestroy(executable));
  CUDA(cuGraphDestroy(recorded));
  tell(" right\n");
  free(expected);
  return drop(&numbers) || drop(&sums) || drop(&mine) || drop(&all) || drop(&moved);
}

/* More streams than a GPU has queues for, one call of one communicator in each, all of which stand before the first
 * is waited for. */
static int many_streams(ncclComm_t comm, ncclComm_t other, CUstream one, CUstream two) {
  enum { kCount = 10007 };
  const struct kind* const kind = &kinds[kInt32];
  (void)other;
  (void)one;
  (void)two;
  CUstream streams[kStreams];
  struct buffer numbers[kStreams];
  char expected[kCount * 4];
  tell("twenty streams of one communicator:");
  for (int s = 0; s < kStreams; ++s) {
    TRY(make(&numbers[s], sizeof expected));
    CUDA(cuStreamCreate(&streams[s], 1));
    give(kind, ncclSum, rank, s, 0, kCount, numbers[s].host);
  }
  for (int s = 0; s < kStreams; ++s) {
    TRY(put(&numbers[s], sizeof expected, streams[s]));
    TRY(start(kAllReduce, kind, ncclSum, kCount, &numbers[s], &numbers[s], comm, streams[s]));
    TRY(get(&numbers[s], sizeof expected, streams[s]));
  }
  for (int s = 0; s < kStreams; ++s) {
    CUDA(cuStreamSynchronize(streams[s]));
    combine(kind, ncclSum, world, s, 0, kCount, expected);
    TRY(same("all_reduce of one of twenty streams", kind, numbers[s].host, expected, sizeof expected));
  }
  for (int s = 0; s < kStreams; ++s) {
    TRY(drop(&numbers[s]));
    CUDA(cuStreamDestroy_v2(streams[s]));
  }
  tell(" right\n");
  return 0;
}

static const struct {
  const char* name;
  int (*run)(ncclComm_t comm, ncclComm_t other, CUstream one, CUstream two);
} parts[] = {{"types", types},
             {"side_by_side", side_by_side},
             {"graph", graph},
             {"many_streams", many_streams},
             {"sizes", sizes}};

static int needs_two(const char* part) { return strcmp(part, "side_by_side") == 0 || strcmp(part, "graph") == 0; }

static int number(const char* name, int otherwise) {
  const char* const text = getenv(name);
  return text != NULL ? atoi(text) : otherwise;
}

int main(void) {
  rank = number("RANK", -1);
  world = number("WORLD_SIZE", -1);
  is_quiet = number("QUIET", 0);
  largest = (size_t)number("LARGEST_BYTES", 1024 * 1024);
  if (rank < 0 || world < 2 || rank >= world || world > kRanksMax / 2) {
    fprintf(stderr, "RANK and WORLD_SIZE say who this is of whom, of 2 to %d\n", kRanksMax / 2);
    return 2;
  }
  const char* const part = getenv("PART");
  CUcontext context;
  CUstream one, two;
  char line[96];
  int version = 0, driver = 0;
  CUDA(cuInit(0));
  CUDA(cuDevicePrimaryCtxRetain(&context, number("LOCAL_GPU", 0)));
  CUDA(cuCtxPushCurrent_v2(context));
  CUDA(cuStreamCreate(&one, 1));
  CUDA(cuStreamCreate(&two, 1));
  CUDA(cuDriverGetVersion(&driver));
  NCCL(ncclGetVersion(&version));
  snprintf(line, sizeof line, "%d ranks, NCCL calls of %d, CUDA driver of %d\n", world, version, driver);
  tell(line);
  ncclUniqueId id;
  ncclComm_t comm = NULL, other = NULL;
  double begun = now_us();
  NCCL(ncclGetUniqueId(&id));
  NCCL(ncclCommInitRank(&comm, world, id, rank));
  /* A recording of one communicator's calls on its net plugin is one of parts that need no other. */
  if (part == NULL || needs_two(part)) NCCL(ncclCommSplit(comm, 0, rank, &other, NULL));
  snprintf(line, sizeof line, "communicators made: %.0f ms\n", (now_us() - begun) / 1e3);
  tell(line);
  for (size_t p = 0; p < sizeof parts / sizeof parts[0]; ++p) {
    if (part != NULL && strcmp(part, parts[p].name) != 0) continue;
    begun = now_us();
    TRY(parts[p].run(comm, other, one, two));
    snprintf(line, sizeof line, "%s: all is right after %.0f ms\n", parts[p].name, (now_us() - begun) / 1e3);
    tell(line);
  }
  begun = now_us();
  if (other != NULL) NCCL(ncclCommDestroy(other));
  NCCL(ncclCommFinalize(comm));
  NCCL(ncclCommDestroy(comm));
  CUDA(cuDevicePrimaryCtxRelease_v2(number("LOCAL_GPU", 0)));
  fprintf(stderr, "rank %d of %d: all is right (ended in %.0f ms)\n", rank, world, (now_us() - begun) / 1e3);
  return 0;
}
