/* meshcoll.h: the collective engine's C interface (libmeshcoll.so).
 *
 * One communicator per rank and thread of control; calls on one communicator are serialised by the caller, except
 * for meshcoll_abort, _test and _wait, which any thread may make; different communicators are independent. Buffers
 * are host memory, or a GPU's where the process has loaded CUDA (libcuda.so.1) before it makes the communicator, or
 * puts a call into a stream. A GPU's memory that the host cannot follow is copied into pinned memory, worked on there,
 * and copied back, in the call's stream, or else in one of the engine's own, unless the net plugin registers it and the
 * call is in a stream and not reduced by the processor (MESHBED_GPU_DIRECT); no call waits for a whole device. Calls
 * block, or are started and waited for later: either way those of one communicator run in the order in which they were
 * made, one after the other, and those of different communicators side by side. Every function returns MESHCOLL_OK or
 * an error; meshcoll_last_error() then returns what failed, where and what to do, and meshcoll_get_error() the rank and
 * the call. A communicator that has been destroyed is an error as well. An error of a call (other than
 * INVALID_ARGUMENT and UNSUPPORTED, which touch nothing) breaks the communicator for all of its ranks: they get the
 * reason, none is left waiting, and every later call returns the first reason. One exception: a send_recv with a single
 * peer that could not be connected, and that is in no stream; both ends get the reason, and the communicator lives on.
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
  MESHCOLL_SYSTEM = 2,           /* the operating system refused a request */
  MESHCOLL_NET = 3,              /* the net plugin failed: unreachable peer, lost connection */
  MESHCOLL_TIMEOUT = 4,          /* a deadline passed; the error names who is missing */
  MESHCOLL_UNSUPPORTED = 5,
  MESHCOLL_INTERNAL = 6,
  MESHCOLL_IN_PROGRESS = 7, /* no error: not finished yet (as ncclInProgress) */
  MESHCOLL_ABORTED = 8      /* a rank wanted no more: meshcoll_abort */
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
  MESHCOLL_DTYPE_INT = -0x7fffffff - 1
} meshcoll_dtype;
typedef enum {
  MESHCOLL_SUM = 0,
  MESHCOLL_PROD = 1,
  MESHCOLL_MAX = 2,
  MESHCOLL_MIN = 3,
  MESHCOLL_AVG = 4,
  MESHCOLL_OP_INT = -0x7fffffff - 1
} meshcoll_op;

/* Between ranks a and b, each direction; parallel ones may be one. */
typedef struct {
  int a, b;
  int mbps;
} meshcoll_cable;

/* Set struct_bytes = sizeof(meshcoll_options); zero means the default everywhere. */
typedef struct {
  size_t struct_bytes;
  int rank, world;
  const char* bootstrap;        /* "ADDRESS:PORT" of rank 0 on the management network, or an id */
  const char* net_plugin;       /* as NCCL_NET_PLUGIN: a path, or NAME for libnccl-net-NAME.so */
  int net_version;              /* 8..12; 0: the newest that the plugin has */
  int channels;                 /* connections per neighbour and direction; channel c opens device c % devices */
  const int* channel_devices;   /* `channels` device indices, or NULL for c % devices */
  uint64_t slice_bytes;         /* largest single message; default 1 MiB */
  int steps;                    /* messages in flight per connection; default 8 (NCCL_STEPS) */
  int64_t connect_timeout_ms;   /* default 30000; negative: none: every rank that lives and has not left is awaited */
  int64_t operation_timeout_ms; /* default 0: none */
  int64_t reach_timeout_ms;     /* until rank 0 listens; default connect_timeout_ms, without one 60000 */
  /* "ring", "tree", "halving-doubling", "direct", "mesh" or "torus", wherever there is one for that collective, and the
   * ring elsewhere; or "auto" (NULL, or ""): by `tuning`, and where that has no matching line the cheapest in the
   * network that the next six describe. Where they describe none, all ranks are one hop apart. The same on every
   * rank. */
  const char* algorithm;
  int link_mbps;       /* of a rank, each direction; default 100000 */
  int message_ns;      /* a small message between neighbours, from call to arrival; default 1000 */
  int hop_ns;          /* what each further hop adds to a first message; default 3050 */
  int hops_per_mille;  /* between ranks that are no ring neighbours, on average, times 1000; default 1000 */
  int registration_ns; /* to register and deregister an operation's memory, where it is not registered; default 0 */
  /* `cable_count` of them: all cables between the ranks, once each. NULL: not known; then there is no "mesh", nor where
   * not all ranks hang together. */
  const meshcoll_cable* cables;
  size_t cable_count;
  /* The ranks as points of a torus, by its lengths, the first dimension fastest, as "4x4x8"; of ranks behind leaf
   * switches the first ones may multiply to those of a leaf. NULL: the torus that `cables` are, or where they are not
   * known the prime factors of `world`; there is no "torus" of other cables, or where that is a prime. The same on
   * every rank. */
  const char* shape;
  /* world: what each rank's cables carry together, each direction, as behind one PCIe link; 0 or NULL: as much as they
   * are. */
  const int* rank_mbps;
  /* How slices travel: "simple" (NULL): as they are, from and into registered memory; "ll", "ll128": in NCCL's lines of
   * data and flags, through the engine's own memory, in slices of at most 32768 and 576000 bytes; or "auto", as above,
   * where a send_recv goes by "simple". The same on every rank. */
  const char* protocol;
  /* A table for what is "auto", in the format of NCCL's example tuner (tuning.h), or NULL. The same on every rank. */
  const char* tuning;
  /* NULL, or called on a thread of the engine when this communicator, or one made from it, breaks: before its
   * connections and listeners are closed, so that a look at the net plugin shows what it was at. It may call no
   * function of this library. `error`: as meshcoll_last_error() has it then; the callee's for as long as the call. */
  void (*on_break)(void* context, const char* error);
  void* on_break_context;
} meshcoll_options;

typedef struct {
  size_t struct_bytes;
  uint64_t messages_sent, messages_received;
  uint64_t bytes_sent, bytes_received;
  uint64_t copied_bytes;     /* between user and staging memory by the engine */
  uint64_t gpu_direct_calls; /* in streams, whose messages were in GPU memory itself: nothing passed the host's */
  int64_t connect_ns;        /* in which this rank's calls waited for connections to be made */
} meshcoll_stats;

typedef enum {
  MESHCOLL_ALL_REDUCE = 0,
  MESHCOLL_ALL_GATHER = 1,
  MESHCOLL_REDUCE_SCATTER = 2,
  MESHCOLL_BROADCAST = 3,
  MESHCOLL_REDUCE = 4,
  MESHCOLL_SEND_RECV = 5,
  MESHCOLL_ALL_TO_ALL = 6,
  MESHCOLL_GATHER = 7,
  MESHCOLL_SCATTER = 8,
  MESHCOLL_BARRIER = 9,
  MESHCOLL_CALL_INT = -0x7fffffff - 1
} meshcoll_call;

/* Any of the calls below, by what its function takes; what that has not is not looked at. */
typedef struct {
  size_t struct_bytes;
  meshcoll_call call;
  const void* send;
  void* recv;
  size_t count;      /* send_recv: of what is sent */
  size_t recv_count; /* send_recv */
  meshcoll_dtype dtype;
  meshcoll_op op;
  int root;
  int to, from;       /* send_recv */
  int64_t timeout_ms; /* from now; 0: operation_timeout_ms, from when its turn comes */
  /* meshcoll_start alone. Not 0: the call is the next thing in the CUDA stream `stream` (NULL: the default stream of
   * the calling thread's context). It begins when the stream comes to it, and what is put into the stream afterwards
   * begins when it has ended, well or not: an error shows in the communicator (meshcoll_get_async_error). In a group
   * all of its streams wait for one another. Its results are in a GPU's memory in the stream's order, whenever its
   * handle, where it has one, finishes; after an error they are anything. A stream that records a graph gets the call
   * into the graph: it runs at each launch, which is one after the other. 0: the call begins when its turn comes,
   * whatever any stream still does to its memory; its copies may have to wait for calls that hold other streams. */
  int in_stream;
  void* stream;
} meshcoll_args;

/* How a collective goes. */
typedef struct {
  size_t struct_bytes;
  meshcoll_call call;
  /* "ring", "tree", "halving-doubling", "direct", "mesh" or "torus"; "pairs" where each pair of ranks has connections
   * of its own: send_recv, all_to_all, gather and scatter without another algorithm */
  const char* algorithm;
  const char* protocol; /* "simple", "ll" or "ll128" */
  int channels;         /* that carry a part of it */
} meshcoll_plan;

/* A call that was started: a number, which no other call of this copy ever has; 0: none. */
typedef uint64_t meshcoll_handle;

typedef struct {
  size_t struct_bytes;
  meshcoll_result result;
  int peer;              /* the rank that failed, was waited for or aborted, as this rank saw it. If another rank
                            reported it first: as that rank saw it, with its text; if it reported this rank: the
                            reporting rank; -1: none, or several */
  const char* operation; /* "all_reduce", "group_call", ...; "" where it was none of these */
  uint64_t sequence;     /* of these on this communicator, from 1 */
  const char* text;      /* meshcoll_last_error() */
} meshcoll_error;

#define MESHCOLL_ID_BYTES 128

int meshcoll_version(void);
/* A unique id, for those who have no address to agree on: "ADDRESS:PORT/KEY", this process on the management network
 * and 128 random bits that every rank proves to know (docs/security.md), to be handed to every rank as
 * options.bootstrap. Made by the process that will be rank 0: it listens there from now on, until its meshcoll_init
 * with that id. NCCL_SOCKET_IFNAME and NCCL_SOCKET_FAMILY choose the address. */
meshcoll_result meshcoll_get_id(char id[MESHCOLL_ID_BYTES]);
/* The launcher's rank, world and address of rank 0, for options of the same names: torchrun's RANK and WORLD_SIZE,
 * mpirun's OMPI_COMM_WORLD_*, srun's SLURM_*; MASTER_ADDR and MASTER_PORT, and MESHBED_JOB_KEY. An error names the
 * variable, its value and what to set. */
meshcoll_result meshcoll_read_launcher(int* rank, int* world, char bootstrap[MESHCOLL_ID_BYTES]);
/* Returns when all ranks are there, with the same world, channels, steps and slice_bytes. */
meshcoll_result meshcoll_init(const meshcoll_options* options, meshcoll_comm** comm);
/* For every rank, in any state of the communicator. What was started runs to its end first (abort it where it should
 * not). Rank 0 keeps the rendezvous until the others have left, at most connect_timeout_ms (where there is none and the
 * communicator is broken, 30 s). */
meshcoll_result meshcoll_destroy(meshcoll_comm* comm);
/* -1 where comm is NULL or destroyed. */
int meshcoll_rank(const meshcoll_comm* comm);
int meshcoll_world(const meshcoll_comm* comm);
/* Not 0: CUDA was there when comm was made, or has been used by it since: GPU memory is recognised. */
int meshcoll_has_gpu(const meshcoll_comm* comm);
/* Communicators of some of comm's ranks, side by side with it and with each other; each is destroyed for itself. Every
 * rank of comm makes the call, in the same order as its other ones.
 * split: of the ranks with the same color, ordered by key, then by rank; *group is NULL where color is negative. */
meshcoll_result meshcoll_split(meshcoll_comm* comm, int color, int key, meshcoll_comm** group);
/* mesh_group: comm's ranks as a grid with named axes, row-major, the last one fastest ("dp=2,pp=2,tp=2"), and of these
 * the ranks that differ from ours along `axes` alone ("tp", "dp,tp"; "" is ourselves). A world that is no multiple of
 * the grid is refused; ranks beyond the first grid are spare, and get NULL. */
meshcoll_result meshcoll_mesh_group(meshcoll_comm* comm, const char* mesh, const char* axes, meshcoll_comm** group);
/* After a rank has died: a communicator of those that live, in their order, on each of which this is called; comm is
 * aborted, and still to be destroyed. Ranks that are known to be gone are not waited for. A rank that neither calls nor
 * is known to be gone is left behind after connect_timeout_ms (30 s if there is none), and gets an error if it calls
 * later. The survivors agree through rank 0: if that is the rank that died, the result is MESHCOLL_NET, and a new
 * meshcoll_init elsewhere is needed. */
meshcoll_result meshcoll_rebuild(meshcoll_comm* comm, meshcoll_comm** survivors);
/* Of `comm`, or of the last failed meshcoll_init of this copy where comm is NULL. Valid until the calling thread asks
 * again, by this, meshcoll_get_error or meshcoll_get_async_error, or ends, whatever becomes of `comm`. */
const char* meshcoll_last_error(meshcoll_comm* comm);
/* The same error in parts; result is MESHCOLL_OK where there was none. */
meshcoll_result meshcoll_get_error(meshcoll_comm* comm, meshcoll_error* error);
/* Why `comm` is broken; MESHCOLL_OK if it is not. Includes failures that another rank has announced while this one made
 * no calls, and excludes the reasons of refused calls. From any thread, without waiting: new announcements are received
 * in the background, and show at the next call. */
meshcoll_result meshcoll_get_async_error(meshcoll_comm* comm, meshcoll_error* error);
/* Starts a call and returns; its buffers are the engine's until it has finished. An error means that nothing was
 * started. `handle` may be NULL if the call is in a stream: then only the stream waits for it. Between
 * meshcoll_group_start and _end the handle is 0: it is the group that is waited for. */
meshcoll_result meshcoll_start(meshcoll_comm* comm, const meshcoll_args* args, meshcoll_handle* handle);
/* MESHCOLL_IN_PROGRESS, or the call's own result; the handle is used up then. */
meshcoll_result meshcoll_test(meshcoll_comm* comm, meshcoll_handle handle);
/* The same after at most timeout_ms; negative: when the call has finished. */
meshcoll_result meshcoll_wait(meshcoll_comm* comm, meshcoll_handle handle, int64_t timeout_ms);
/* Calls made between the two become one, and start with the last group_end (pairs nest). Their send_recvs progress all
 * at once, so that the order of calls does not matter where ranks send to each other, in pairs or in circles; k sends
 * to a rank meet its k receives in order. Other collectives of the group run before them, in order. Not for barriers,
 * nor for send_recv in place. Handle NULL: group_end waits, unless a call of the group is in a stream. A call that is
 * refused spoils its group: nothing of it runs, and group_end gives the reason. */
meshcoll_result meshcoll_group_start(meshcoll_comm* comm);
meshcoll_result meshcoll_group_end(meshcoll_comm* comm, meshcoll_handle* handle);
/* From any thread, in any state: all waits of all ranks on this communicator, and all later calls, end with
 * MESHCOLL_ABORTED and a text with this rank, its last call and `reason` (NULL: none). When it returns, nothing is in
 * flight on this rank. Groups and other communicators live on. */
meshcoll_result meshcoll_abort(meshcoll_comm* comm, const char* reason);
meshcoll_result meshcoll_get_stats(meshcoll_comm* comm, meshcoll_stats* stats);
/* Where args is NULL the plan of the last collective that this rank has begun to carry out, of a group its last one;
 * MESHCOLL_INVALID_ARGUMENT where there was none. Else how a call with these arguments would go, on all channels; it is
 * not made. */
meshcoll_result meshcoll_get_plan(meshcoll_comm* comm, const meshcoll_args* args, meshcoll_plan* plan);
/* Keeps [data, data + size_bytes) registered with the net plugin until deregistered or destroyed; it must stay mapped
 * as long. Buffers that are not registered are registered for each operation anew. */
meshcoll_result meshcoll_register(meshcoll_comm* comm, void* data, size_t size_bytes);
meshcoll_result meshcoll_deregister(meshcoll_comm* comm, void* data);
/* What net plugins log, and is shown by NCCL_DEBUG, goes to `write` from then on in place of standard error: level 2 is
 * a warning, 3 and 4 say more. For all of this copy of the library, before the first communicator is made; NULL:
 * standard error. `write` may be called by any of its threads and call none of its functions. */
void meshcoll_set_log(void (*write)(void* context, int level, int rank, const char* text), void* context);
/* The clock that the engine itself uses: CLOCK_MONOTONIC, virtual in a simulation. */
int64_t meshcoll_now_ns(void);

/* Counts are elements of `dtype`, and buffers are aligned for it. send == recv is in place where the two have one size;
 * for all-gather and gather in place is send == recv + rank * count, for reduce-scatter and scatter recv == send + rank
 * * count (elements), as in NCCL. A collective makes the connections of its algorithm that are not there yet; one of
 * zero elements does only that.
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
