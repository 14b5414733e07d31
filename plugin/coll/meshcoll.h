/* meshcoll.h: the collective engine's C interface (libmeshcoll.so).
 *
 * One communicator per rank and thread of control; calls on one communicator are serialised by the caller, different
 * communicators are independent. All calls are blocking in this version. Buffers are host memory.
 * Every function returns MESHCOLL_OK or an error; meshcoll_last_error() then says what, where and what to do.
 * An error of a call (other than INVALID_ARGUMENT and UNSUPPORTED, which touch nothing) breaks the communicator for all
 * of its ranks: they are told, none is left waiting, and every later call answers with the first reason. One exception:
 * a send_recv with a single peer that could not be connected; both ends get the reason, and the communicator lives on.
 * The data travel through an ncclNet table (any NCCL net plugin), loaded and driven as NCCL does it: a service thread
 * that listens, connects and accepts, and a progress thread that sends, receives and tests.
 */
#ifndef MESHCOLL_H
#define MESHCOLL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define MESHCOLL_VERSION 1

typedef struct meshcoll_comm meshcoll_comm;

typedef enum {
  MESHCOLL_OK = 0,
  MESHCOLL_INVALID_ARGUMENT = 1, /* the caller's mistake */
  MESHCOLL_SYSTEM = 2,           /* the operating system said no */
  MESHCOLL_NET = 3,              /* the net plugin said no: unreachable peer, lost connection */
  MESHCOLL_TIMEOUT = 4,          /* a deadline passed; the error names who is missing */
  MESHCOLL_UNSUPPORTED = 5,
  MESHCOLL_INTERNAL = 6
} meshcoll_result;

/* Numbers as in ncclDataType_t and ncclRedOp_t. The last ones only make room for every int, so that a number that we do
 * not know can be passed, and refused. The two float8 types are moved, never reduced. */
typedef enum {
  MESHCOLL_INT8 = 0,
  MESHCOLL_UINT8 = 1,
  MESHCOLL_INT32 = 2,
  MESHCOLL_UINT32 = 3,
  MESHCOLL_INT64 = 4,
  MESHCOLL_UINT64 = 5,
  MESHCOLL_FLOAT16 = 6,
  MESHCOLL_FLOAT32 = 7,
  MESHCOLL_FLOAT64 = 8,
  MESHCOLL_BFLOAT16 = 9,
  MESHCOLL_FLOAT8_E4M3 = 10,
  MESHCOLL_FLOAT8_E5M2 = 11,
  MESHCOLL_DTYPE_INT = 0x7fffffff
} meshcoll_dtype;
typedef enum {
  MESHCOLL_SUM = 0,
  MESHCOLL_PROD = 1,
  MESHCOLL_MAX = 2,
  MESHCOLL_MIN = 3,
  MESHCOLL_AVG = 4,
  MESHCOLL_OP_INT = 0x7fffffff
} meshcoll_op;

/* Set struct_bytes = sizeof(meshcoll_options); zero means the default everywhere. */
typedef struct {
  size_t struct_bytes;
  int rank, world;
  const char* bootstrap;        /* "ADDRESS:PORT" of rank 0 on the management network */
  const char* net_plugin;       /* as NCCL_NET_PLUGIN: a path, or NAME for libnccl-net-NAME.so */
  int net_version;              /* 8..12; 0: the newest that the plugin has */
  int channels;                 /* connections per neighbour and direction; channel c opens device c % devices */
  const int* channel_devices;   /* `channels` device indices, or NULL for c % devices */
  uint64_t slice_bytes;         /* largest single message; default 1 MiB */
  int steps;                    /* messages in flight per connection; default 8 (NCCL_STEPS) */
  int64_t connect_timeout_ms;   /* default 30000 */
  int64_t operation_timeout_ms; /* default 0: none */
  /* "ring" (NULL), "tree", "halving-doubling" or "direct", wherever there is one for that collective, and the ring
   * elsewhere; or "auto": the one that costs least in the network that the next four describe. The same on every rank.
   */
  const char* algorithm;
  int link_mbps;      /* of a rank, each direction; default 100000 */
  int message_ns;     /* a small message between neighbours, from call to arrival; default 1150 */
  int hop_ns;         /* what each further hop adds; default 3900 */
  int hops_per_mille; /* between ranks that are no ring neighbours, on average, times 1000; default 1000 */
} meshcoll_options;

typedef struct {
  size_t struct_bytes;
  uint64_t messages_sent, messages_received;
  uint64_t bytes_sent, bytes_received;
  uint64_t copied_bytes; /* between user and staging memory by the engine */
} meshcoll_stats;

int meshcoll_version(void);
/* Returns when all ranks are there, with the same world, channels, steps and slice_bytes. */
meshcoll_result meshcoll_init(const meshcoll_options* options, meshcoll_comm** comm);
/* For every rank, in any state of the communicator. Rank 0 keeps the rendezvous until the others have left, at most
 * connect_timeout_ms. */
meshcoll_result meshcoll_destroy(meshcoll_comm* comm);
/* -1 where comm is NULL. */
int meshcoll_rank(const meshcoll_comm* comm);
int meshcoll_world(const meshcoll_comm* comm);
/* Communicators of some of comm's ranks, side by side with it and with each other; each is destroyed for itself. Every
 * rank of comm makes the call, in the same order as its other ones.
 * split: of the ranks with the same color, ordered by key, then by rank; *group is NULL where color is negative. */
meshcoll_result meshcoll_split(meshcoll_comm* comm, int color, int key, meshcoll_comm** group);
/* mesh_group: comm's ranks as a grid with named axes, row-major, the last one fastest ("dp=2,pp=2,tp=2"), and of these
 * the ranks that differ from ours along `axes` alone ("tp", "dp,tp"; "" is ourselves). A world that is no multiple of
 * the grid is refused; ranks beyond the first grid are spare, and get NULL. */
meshcoll_result meshcoll_mesh_group(meshcoll_comm* comm, const char* mesh, const char* axes, meshcoll_comm** group);
/* Of `comm`, or of the last failed meshcoll_init of this copy where comm is NULL. Valid until the next call. */
const char* meshcoll_last_error(meshcoll_comm* comm);
meshcoll_result meshcoll_get_stats(meshcoll_comm* comm, meshcoll_stats* stats);
/* Keeps [data, data + size_bytes) registered with the net plugin until deregistered or destroyed; it must stay mapped
 * as long. Buffers that are not registered are registered for each operation anew. */
meshcoll_result meshcoll_register(meshcoll_comm* comm, void* data, size_t size_bytes);
meshcoll_result meshcoll_deregister(meshcoll_comm* comm, void* data);
/* The clock that the engine itself uses: CLOCK_MONOTONIC, virtual in a simulation. */
int64_t meshcoll_now_ns(void);

/* Counts are elements of `dtype`, and buffers are aligned for it. send == recv is in place where the two have one size;
 * for all-gather and gather in place is send == recv + rank * count, for reduce-scatter and scatter recv == send + rank
 * * count (elements), as in NCCL. The first collective makes the ring's connections; one of zero elements does only
 * that.
 *
 * Reductions are formed in an order fixed by rank and algorithm: the same bits on every rank and in every world. The
 * half types (float16, bfloat16) are reduced in float32 and rounded once, at the end, whatever the number of ranks.
 * Integers wrap; MESHCOLL_AVG is the sum divided once: floats rounded to nearest, integers (the wrapped sum) towards
 * zero. Of a number and a NaN, MAX and MIN take the number. */
meshcoll_result meshcoll_all_reduce(meshcoll_comm*, const void* send, void* recv, size_t count, meshcoll_dtype,
                                    meshcoll_op);
meshcoll_result meshcoll_all_gather(meshcoll_comm*, const void* send, void* recv, size_t send_count, meshcoll_dtype);
meshcoll_result meshcoll_reduce_scatter(meshcoll_comm*, const void* send, void* recv, size_t recv_count, meshcoll_dtype,
                                        meshcoll_op);
meshcoll_result meshcoll_broadcast(meshcoll_comm*, const void* send, void* recv, size_t count, meshcoll_dtype,
                                   int root);
/* `recv` is read nowhere and written at the root only; elsewhere it may be NULL. */
meshcoll_result meshcoll_reduce(meshcoll_comm*, const void* send, void* recv, size_t count, meshcoll_dtype, meshcoll_op,
                                int root);
/* `count` elements from every rank to every rank: block r of send goes to rank r, block r of recv is rank r's. Each
 * pair has connections of its own. In place costs one copy of what arrives. */
meshcoll_result meshcoll_all_to_all(meshcoll_comm*, const void* send, void* recv, size_t count, meshcoll_dtype);
/* recv matters at the root only: world * send_count elements, in rank order. */
meshcoll_result meshcoll_gather(meshcoll_comm*, const void* send, void* recv, size_t send_count, meshcoll_dtype,
                                int root);
/* send matters at the root only: world * recv_count elements, in rank order. */
meshcoll_result meshcoll_scatter(meshcoll_comm*, const void* send, void* recv, size_t recv_count, meshcoll_dtype,
                                 int root);
/* A pair that may call in either order; both directions of one call may be open: send to `to`, receive from `from`
 * (-1: neither). In place (send == recv) costs one copy of what arrives. */
meshcoll_result meshcoll_send_recv(meshcoll_comm*, const void* send, size_t send_count, int to, void* recv,
                                   size_t recv_count, int from, meshcoll_dtype);
meshcoll_result meshcoll_barrier(meshcoll_comm*);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
