/* mpi.h: the calls that the drop-in libmpi.so.40 has, in Open MPI's binary interface: handles are addresses of data
 * symbols (ompi_mpi_comm_world, ompi_mpi_int, ...) whose sizes are part of that interface. Checked against mpi.h of
 * Open MPI 4.1.4 and against its libmpi.so.40 (tests/dropin/mpi_test.cpp). A program compiled against Open MPI's own
 * header links to the drop-in as well; a call that is not here is missing when it is loaded, by name.
 */
#ifndef MESHBED_MPI_H_
#define MESHBED_MPI_H_

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct ompi_communicator_t* MPI_Comm;
typedef struct ompi_datatype_t* MPI_Datatype;
typedef struct ompi_op_t* MPI_Op;
typedef struct ompi_request_t* MPI_Request;
typedef struct ompi_info_t* MPI_Info;
typedef struct ompi_errhandler_t* MPI_Errhandler;
typedef struct ompi_status_public_t {
  int MPI_SOURCE, MPI_TAG, MPI_ERROR, _cancelled;
  size_t _ucount; /* of bytes */
} MPI_Status;

struct ompi_predefined_communicator_t;
struct ompi_predefined_datatype_t;
struct ompi_predefined_op_t;
struct ompi_predefined_request_t;
struct ompi_predefined_info_t;
struct ompi_predefined_errhandler_t;

#define MPI_SUCCESS 0
#define MPI_ERR_BUFFER 1
#define MPI_ERR_COUNT 2
#define MPI_ERR_TYPE 3
#define MPI_ERR_TAG 4
#define MPI_ERR_COMM 5
#define MPI_ERR_RANK 6
#define MPI_ERR_REQUEST 7
#define MPI_ERR_ROOT 8
#define MPI_ERR_OP 10
#define MPI_ERR_ARG 13
#define MPI_ERR_TRUNCATE 15
#define MPI_ERR_OTHER 16
#define MPI_ERR_IN_STATUS 18

#define MPI_ANY_SOURCE -1
#define MPI_PROC_NULL -2
#define MPI_ANY_TAG -1
#define MPI_UNDEFINED -32766
#define MPI_IN_PLACE ((void*)1)
#define MPI_STATUS_IGNORE ((MPI_Status*)0)
#define MPI_STATUSES_IGNORE ((MPI_Status*)0)
#define MPI_COMM_TYPE_SHARED 0
#define MPI_MAX_PROCESSOR_NAME 256
#define MPI_MAX_ERROR_STRING 256
#define MPI_MAX_LIBRARY_VERSION_STRING 256
enum { MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE };

#define MESHBED_MPI_HANDLE(type, name) ((type)(void*)&(name))
extern struct ompi_predefined_communicator_t ompi_mpi_comm_world, ompi_mpi_comm_self, ompi_mpi_comm_null;
#define MPI_COMM_WORLD MESHBED_MPI_HANDLE(MPI_Comm, ompi_mpi_comm_world)
#define MPI_COMM_SELF MESHBED_MPI_HANDLE(MPI_Comm, ompi_mpi_comm_self)
#define MPI_COMM_NULL MESHBED_MPI_HANDLE(MPI_Comm, ompi_mpi_comm_null)
extern struct ompi_predefined_request_t ompi_request_null;
#define MPI_REQUEST_NULL MESHBED_MPI_HANDLE(MPI_Request, ompi_request_null)
extern struct ompi_predefined_info_t ompi_mpi_info_null;
#define MPI_INFO_NULL MESHBED_MPI_HANDLE(MPI_Info, ompi_mpi_info_null)
extern struct ompi_predefined_errhandler_t ompi_mpi_errors_are_fatal, ompi_mpi_errors_return;
#define MPI_ERRORS_ARE_FATAL MESHBED_MPI_HANDLE(MPI_Errhandler, ompi_mpi_errors_are_fatal)
#define MPI_ERRORS_RETURN MESHBED_MPI_HANDLE(MPI_Errhandler, ompi_mpi_errors_return)

extern struct ompi_predefined_datatype_t ompi_mpi_datatype_null, ompi_mpi_byte, ompi_mpi_char, ompi_mpi_signed_char,
    ompi_mpi_unsigned_char, ompi_mpi_short, ompi_mpi_unsigned_short, ompi_mpi_int, ompi_mpi_unsigned, ompi_mpi_long,
    ompi_mpi_unsigned_long, ompi_mpi_long_long_int, ompi_mpi_unsigned_long_long, ompi_mpi_float, ompi_mpi_double,
    ompi_mpi_int8_t, ompi_mpi_uint8_t, ompi_mpi_int16_t, ompi_mpi_uint16_t, ompi_mpi_int32_t, ompi_mpi_uint32_t,
    ompi_mpi_int64_t, ompi_mpi_uint64_t, ompi_mpi_c_bool;
#define MPI_DATATYPE_NULL MESHBED_MPI_HANDLE(MPI_Datatype, ompi_mpi_datatype_null)
#define MPI_BYTE MESHBED_MPI_HANDLE(MPI_Datatype, ompi_mpi_byte)
#define MPI_CHAR MESHBED_MPI_HANDLE(MPI_Datatype, ompi_mpi_char)
#define MPI_SIGNED_CHAR MESHBED_MPI_HANDLE(MPI_Datatype, ompi_mpi_signed_char)
#define MPI_UNSIGNED_CHAR MESHBED_MPI_HANDLE(MPI_Datatype, ompi_mpi_unsigned_char)
#define MPI_SHORT MESHBED_MPI_HANDLE(MPI_Datatype, ompi_mpi_short)
#define MPI_UNSIGNED_SHORT MESHBED_MPI_HANDLE(MPI_Datatype, ompi_mpi_unsigned_short)
#define MPI_INT MESHBED_MPI_HANDLE(MPI_Datatype, ompi_mpi_int)
#define MPI_UNSIGNED MESHBED_MPI_HANDLE(MPI_Datatype, ompi_mpi_unsigned)
#define MPI_LONG MESHBED_MPI_HANDLE(MPI_Datatype, ompi_mpi_long)
#define MPI_UNSIGNED_LONG MESHBED_MPI_HANDLE(MPI_Datatype, ompi_mpi_unsigned_long)
#define MPI_LONG_LONG MESHBED_MPI_HANDLE(MPI_Datatype, ompi_mpi_long_long_int)
#define MPI_UNSIGNED_LONG_LONG MESHBED_MPI_HANDLE(MPI_Datatype, ompi_mpi_unsigned_long_long)
#define MPI_FLOAT MESHBED_MPI_HANDLE(MPI_Datatype, ompi_mpi_float)
#define MPI_DOUBLE MESHBED_MPI_HANDLE(MPI_Datatype, ompi_mpi_double)
#define MPI_INT8_T MESHBED_MPI_HANDLE(MPI_Datatype, ompi_mpi_int8_t)
#define MPI_UINT8_T MESHBED_MPI_HANDLE(MPI_Datatype, ompi_mpi_uint8_t)
#define MPI_INT16_T MESHBED_MPI_HANDLE(MPI_Datatype, ompi_mpi_int16_t)
#define MPI_UINT16_T MESHBED_MPI_HANDLE(MPI_Datatype, ompi_mpi_uint16_t)
#define MPI_INT32_T MESHBED_MPI_HANDLE(MPI_Datatype, ompi_mpi_int32_t)
#define MPI_UINT32_T MESHBED_MPI_HANDLE(MPI_Datatype, ompi_mpi_uint32_t)
#define MPI_INT64_T MESHBED_MPI_HANDLE(MPI_Datatype, ompi_mpi_int64_t)
#define MPI_UINT64_T MESHBED_MPI_HANDLE(MPI_Datatype, ompi_mpi_uint64_t)
#define MPI_C_BOOL MESHBED_MPI_HANDLE(MPI_Datatype, ompi_mpi_c_bool)

extern struct ompi_predefined_op_t ompi_mpi_op_null, ompi_mpi_op_max, ompi_mpi_op_min, ompi_mpi_op_sum,
    ompi_mpi_op_prod, ompi_mpi_op_land, ompi_mpi_op_band, ompi_mpi_op_lor, ompi_mpi_op_bor, ompi_mpi_op_lxor,
    ompi_mpi_op_bxor;
#define MPI_OP_NULL MESHBED_MPI_HANDLE(MPI_Op, ompi_mpi_op_null)
#define MPI_MAX MESHBED_MPI_HANDLE(MPI_Op, ompi_mpi_op_max)
#define MPI_MIN MESHBED_MPI_HANDLE(MPI_Op, ompi_mpi_op_min)
#define MPI_SUM MESHBED_MPI_HANDLE(MPI_Op, ompi_mpi_op_sum)
#define MPI_PROD MESHBED_MPI_HANDLE(MPI_Op, ompi_mpi_op_prod)
#define MPI_LAND MESHBED_MPI_HANDLE(MPI_Op, ompi_mpi_op_land)
#define MPI_BAND MESHBED_MPI_HANDLE(MPI_Op, ompi_mpi_op_band)
#define MPI_LOR MESHBED_MPI_HANDLE(MPI_Op, ompi_mpi_op_lor)
#define MPI_BOR MESHBED_MPI_HANDLE(MPI_Op, ompi_mpi_op_bor)
#define MPI_LXOR MESHBED_MPI_HANDLE(MPI_Op, ompi_mpi_op_lxor)
#define MPI_BXOR MESHBED_MPI_HANDLE(MPI_Op, ompi_mpi_op_bxor)

/* As in the MPI standard, 3.1. An error is written to standard error and ends the process with status 1, unless the
 * communicator has MPI_ERRORS_RETURN. Counts are elements; all calls but Isend and Irecv block.
 * At most MPI_THREAD_SERIALIZED is provided: a call excludes others while it waits for other ranks, so that two threads
 * whose collective calls overlap on two communicators may wait for ever. MPI_Abort may be called at any time.
 * A message has at most 16 MiB, and so have all ranks' buffers of a collective call together. */
int MPI_Init(int* argc, char*** argv);
int MPI_Init_thread(int* argc, char*** argv, int required, int* provided);
int MPI_Initialized(int* flag);
int MPI_Query_thread(int* provided);
/* Returns when every rank has called it. */
int MPI_Finalize(void);
int MPI_Finalized(int* flag);
int MPI_Abort(MPI_Comm comm, int errorcode);
int MPI_Comm_rank(MPI_Comm comm, int* rank);
int MPI_Comm_size(MPI_Comm comm, int* size);
int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* newcomm);
int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm* newcomm);
/* MPI_COMM_TYPE_SHARED: the ranks with the same host name. */
int MPI_Comm_split_type(MPI_Comm comm, int split_type, int key, MPI_Info info, MPI_Comm* newcomm);
int MPI_Comm_free(MPI_Comm* comm);
int MPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler errhandler);
int MPI_Barrier(MPI_Comm comm);
int MPI_Bcast(void* buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm);
int MPI_Gather(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
               MPI_Datatype recvtype, int root, MPI_Comm comm);
int MPI_Allgather(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
                  MPI_Datatype recvtype, MPI_Comm comm);
int MPI_Scatter(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
                MPI_Datatype recvtype, int root, MPI_Comm comm);
int MPI_Alltoall(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
                 MPI_Datatype recvtype, MPI_Comm comm);
/* Reduces in rank order, so that every rank gets the same bits. */
int MPI_Reduce(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op, int root,
               MPI_Comm comm);
int MPI_Allreduce(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm);
/* A send returns before it is received; rank 0 holds the bytes. MPI_ANY_SOURCE and MPI_ANY_TAG are refused. A receive
 * from the calling rank itself needs a send before it. */
int MPI_Send(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm);
int MPI_Recv(void* buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Status* status);
int MPI_Sendrecv(const void* sendbuf, int sendcount, MPI_Datatype sendtype, int dest, int sendtag, void* recvbuf,
                 int recvcount, MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm, MPI_Status* status);
int MPI_Isend(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
              MPI_Request* request);
int MPI_Irecv(void* buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Request* request);
int MPI_Wait(MPI_Request* request, MPI_Status* status);
int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[]);
int MPI_Get_count(const MPI_Status* status, MPI_Datatype datatype, int* count);
int MPI_Type_size(MPI_Datatype datatype, int* size);
int MPI_Get_processor_name(char* name, int* resultlen);
int MPI_Get_version(int* version, int* subversion);
int MPI_Get_library_version(char* version, int* resultlen);
int MPI_Error_string(int errorcode, char* string, int* resultlen);
double MPI_Wtime(void);
double MPI_Wtick(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
