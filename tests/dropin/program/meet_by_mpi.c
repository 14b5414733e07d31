/* Every call of plugin/dropin/mpi/mpi.h, by one rank or more; results are compared with values computed here.
 * Knows mpi.h alone, so that it can be compiled against Open MPI's as well. STORY=... ends in one of the errors. */
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int rank, ranks, wrong;

#define EXPECT(condition)                                                   \
  do {                                                                      \
    if (!(condition)) {                                                     \
      ++wrong;                                                              \
      printf("rank %d: line %d: not so: %s\n", rank, __LINE__, #condition); \
    }                                                                       \
  } while (0)
#define GOOD(call) EXPECT((call) == MPI_SUCCESS)

/* --- reductions: each type with each operation --- */

enum { kElements = 5, kOperations = 10 };

/* Small, so that no product overflows, and 0 among them for the logical ones. */
static int element(int of_rank, int index) { return (3 * of_rank + 2 * index) % 4; }

static void check_reduction(MPI_Datatype type, size_t bytes, const char* what, int operation, MPI_Op op,
                            const void* given, const void* expected) {
  unsigned char result[kElements * 8], untouched[kElements * 8];
  memset(result, 0xee, sizeof(result));
  memset(untouched, 0xee, sizeof(untouched));
  GOOD(MPI_Allreduce(given, result, kElements, type, op, MPI_COMM_WORLD));
  int same = memcmp(result, expected, kElements * bytes) == 0;
  memcpy(result, given, kElements * bytes);
  GOOD(MPI_Allreduce(MPI_IN_PLACE, result, kElements, type, op, MPI_COMM_WORLD));
  same = same && memcmp(result, expected, kElements * bytes) == 0;
  const int root = operation % ranks;
  memset(result, 0xee, sizeof(result));
  GOOD(MPI_Reduce(given, result, kElements, type, op, root, MPI_COMM_WORLD));
  same = same && memcmp(result, rank == root ? expected : untouched, kElements * bytes) == 0;
  memcpy(result, given, kElements * bytes);
  GOOD(MPI_Reduce(rank == root ? MPI_IN_PLACE : result, result, kElements, type, op, root, MPI_COMM_WORLD));
  same = same && memcmp(result, rank == root ? expected : given, kElements * bytes) == 0;
  if (!same) printf("rank %d: %s, operation %d: the result differs\n", rank, what, operation);
  wrong += !same;
}

static void check_refused(MPI_Datatype type, MPI_Op op) {
  unsigned char given[kElements * 8] = {0}, result[kElements * 8];
  EXPECT(MPI_Allreduce(given, result, kElements, type, op, MPI_COMM_WORLD) == MPI_ERR_OP);
}

#define MAX_OF(a, b) ((a) > (b) ? (a) : (b))
#define MIN_OF(a, b) ((a) < (b) ? (a) : (b))
#define SUM_OF(a, b) ((a) + (b))
#define PROD_OF(a, b) ((a) * (b))
#define LAND_OF(a, b) ((a) && (b))
#define BAND_OF(a, b) ((a) & (b))
#define LOR_OF(a, b) ((a) || (b))
#define BOR_OF(a, b) ((a) | (b))
#define LXOR_OF(a, b) (!(a) != !(b))
#define BXOR_OF(a, b) ((a) ^ (b))

#define REDUCE(type, mpi_type, number, op, formula, offset)                          \
  do {                                                                               \
    type given[kElements], expected[kElements];                                      \
    for (int index = 0; index < kElements; ++index) {                                \
      given[index] = (type)(element(rank, index) + (offset));                        \
      expected[index] = (type)(element(0, index) + (offset));                        \
      for (int other = 1; other < ranks; ++other) {                                  \
        const type operand = (type)(element(other, index) + (offset));               \
        expected[index] = (type)formula(expected[index], operand);                   \
      }                                                                              \
    }                                                                                \
    check_reduction(mpi_type, sizeof(type), #mpi_type, number, op, given, expected); \
  } while (0)

#define ARITHMETIC(type, mpi_type, offset)            \
  REDUCE(type, mpi_type, 0, MPI_MAX, MAX_OF, offset); \
  REDUCE(type, mpi_type, 1, MPI_MIN, MIN_OF, offset); \
  REDUCE(type, mpi_type, 2, MPI_SUM, SUM_OF, offset); \
  REDUCE(type, mpi_type, 3, MPI_PROD, PROD_OF, offset)
#define LOGICAL(type, mpi_type)                    \
  REDUCE(type, mpi_type, 4, MPI_LAND, LAND_OF, 0); \
  REDUCE(type, mpi_type, 5, MPI_LOR, LOR_OF, 0);   \
  REDUCE(type, mpi_type, 6, MPI_LXOR, LXOR_OF, 0)
#define BITWISE(type, mpi_type, offset)                 \
  REDUCE(type, mpi_type, 7, MPI_BAND, BAND_OF, offset); \
  REDUCE(type, mpi_type, 8, MPI_BOR, BOR_OF, offset);   \
  REDUCE(type, mpi_type, 9, MPI_BXOR, BXOR_OF, offset)
/* Offsets: negative numbers for signed types, the upper half for unsigned ones. */
#define SIGNED(type, mpi_type)      \
  do {                              \
    ARITHMETIC(type, mpi_type, -2); \
    LOGICAL(type, mpi_type);        \
    BITWISE(type, mpi_type, -2);    \
    EXPECT_SIZE(type, mpi_type);    \
  } while (0)
#define UNSIGNED(type, mpi_type)                     \
  do {                                               \
    ARITHMETIC(type, mpi_type, (type) ~(type)0 - 3); \
    LOGICAL(type, mpi_type);                         \
    BITWISE(type, mpi_type, (type) ~(type)0 - 3);    \
    EXPECT_SIZE(type, mpi_type);                     \
  } while (0)
#define EXPECT_SIZE(type, mpi_type)     \
  int size = 0;                         \
  GOOD(MPI_Type_size(mpi_type, &size)); \
  EXPECT(size == (int)sizeof(type))

static void reductions(void) {
  SIGNED(char, MPI_CHAR);
  SIGNED(signed char, MPI_SIGNED_CHAR);
  SIGNED(short, MPI_SHORT);
  SIGNED(int, MPI_INT);
  SIGNED(long, MPI_LONG);
  SIGNED(long long, MPI_LONG_LONG);
  SIGNED(int8_t, MPI_INT8_T);
  SIGNED(int16_t, MPI_INT16_T);
  SIGNED(int32_t, MPI_INT32_T);
  SIGNED(int64_t, MPI_INT64_T);
  UNSIGNED(unsigned char, MPI_UNSIGNED_CHAR);
  UNSIGNED(unsigned short, MPI_UNSIGNED_SHORT);
  UNSIGNED(unsigned, MPI_UNSIGNED);
  UNSIGNED(unsigned long, MPI_UNSIGNED_LONG);
  UNSIGNED(unsigned long long, MPI_UNSIGNED_LONG_LONG);
  UNSIGNED(uint8_t, MPI_UINT8_T);
  UNSIGNED(uint16_t, MPI_UINT16_T);
  UNSIGNED(uint32_t, MPI_UINT32_T);
  UNSIGNED(uint64_t, MPI_UINT64_T);
  {
    ARITHMETIC(float, MPI_FLOAT, -1.25F);
    EXPECT_SIZE(float, MPI_FLOAT);
  }
  {
    ARITHMETIC(double, MPI_DOUBLE, 0.1); /* in rank order, so that roundings are these */
    EXPECT_SIZE(double, MPI_DOUBLE);
  }
  {
    BITWISE(unsigned char, MPI_BYTE, 200);
    EXPECT_SIZE(unsigned char, MPI_BYTE);
  }
  {
    LOGICAL(_Bool, MPI_C_BOOL);
    EXPECT_SIZE(_Bool, MPI_C_BOOL);
  }
  GOOD(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  check_refused(MPI_BYTE, MPI_SUM);
  check_refused(MPI_C_BOOL, MPI_BXOR);
  check_refused(MPI_FLOAT, MPI_BAND);
  check_refused(MPI_DOUBLE, MPI_LAND);
  check_refused(MPI_INT, MPI_OP_NULL);
  int size = 0;
  EXPECT(MPI_Type_size(MPI_DATATYPE_NULL, &size) == MPI_ERR_TYPE);
  GOOD(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
}

/* --- collectives that move --- */

static void collectives(MPI_Comm comm) {
  int here = 0, all = 0;
  GOOD(MPI_Comm_rank(comm, &here));
  GOOD(MPI_Comm_size(comm, &all));
  int* many = malloc(sizeof(int) * 2 * all);
  int* given = malloc(sizeof(int) * 2 * all);
  for (int root = 0; root < all; ++root) {
    long values[3] = {here, here, here};
    if (here == root) values[0] = 10 * root + 7, values[2] = -root;
    GOOD(MPI_Bcast(values, 3, MPI_LONG, root, comm));
    EXPECT(values[0] == 10 * root + 7 && values[1] == root && values[2] == -root);
    GOOD(MPI_Bcast(NULL, 0, MPI_INT, root, comm));

    int mine[2] = {100 * root + here, -here};
    memset(many, 0xee, sizeof(int) * 2 * all);
    GOOD(MPI_Gather(mine, 2, MPI_INT, many, here == root ? 2 : -1, MPI_INT, root, comm));
    for (int from = 0; from < all && here == root; ++from) {
      EXPECT(many[2 * from] == 100 * root + from && many[2 * from + 1] == -from);
    }
    if (here == root) memcpy(many + 2 * here, mine, sizeof(mine));
    GOOD(MPI_Gather(here == root ? MPI_IN_PLACE : mine, 8, MPI_BYTE, many, 2, MPI_INT, root, comm));
    for (int from = 0; from < all && here == root; ++from) EXPECT(many[2 * from] == 100 * root + from);

    for (int to = 0; to < 2 * all; ++to) given[to] = 1000 * here + to;
    memset(mine, 0xee, sizeof(mine));
    GOOD(MPI_Scatter(given, here == root ? 2 : -1, MPI_INT, mine, 2, MPI_INT, root, comm));
    EXPECT(mine[0] == 1000 * root + 2 * here && mine[1] == mine[0] + 1);
    GOOD(MPI_Scatter(given, 2, MPI_INT, here == root ? MPI_IN_PLACE : mine, 2, MPI_INT, root, comm));
    EXPECT(given[2 * here] == 1000 * here + 2 * here && mine[1] == 1000 * root + 2 * here + 1);
    GOOD(MPI_Barrier(comm));
  }
  const int mine[2] = {here, here * here};
  GOOD(MPI_Allgather(mine, 2, MPI_INT, many, 2, MPI_INT, comm));
  for (int from = 0; from < all; ++from) EXPECT(many[2 * from] == from && many[2 * from + 1] == from * from);
  memset(many, 0xee, sizeof(int) * 2 * all);
  memcpy(many + 2 * here, mine, sizeof(mine));
  GOOD(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, many, 2, MPI_INT, comm));
  for (int from = 0; from < all; ++from) EXPECT(many[2 * from] == from && many[2 * from + 1] == from * from);
  for (int to = 0; to < 2 * all; ++to) given[to] = 1000 * here + to;
  GOOD(MPI_Alltoall(given, 2, MPI_INT, many, 2, MPI_INT, comm));
  for (int from = 0; from < all; ++from) EXPECT(many[2 * from + 1] == 1000 * from + 2 * here + 1);
  memcpy(many, given, sizeof(int) * 2 * all);
  GOOD(MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, many, 2, MPI_INT, comm));
  for (int from = 0; from < all; ++from) EXPECT(many[2 * from] == 1000 * from + 2 * here);
  free(given);
  free(many);
}

/* --- communicators --- */

static int sum_on(MPI_Comm comm) {
  int sum = 0;
  GOOD(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm));
  return sum;
}

static void communicators(void) {
  MPI_Comm reversed, halves, same, node, none, twice;
  int here = -1, size = -1;
  GOOD(MPI_Comm_split(MPI_COMM_WORLD, 3, -rank, &reversed));
  GOOD(MPI_Comm_rank(reversed, &here));
  EXPECT(here == ranks - 1 - rank);
  int first = rank;
  GOOD(MPI_Bcast(&first, 1, MPI_INT, 0, reversed));
  EXPECT(first == ranks - 1);
  collectives(reversed);
  /* Keys that are equal: by rank. */
  GOOD(MPI_Comm_split(reversed, rank % 2, 0, &halves));
  GOOD(MPI_Comm_size(halves, &size));
  EXPECT(size == (ranks + 1 - rank % 2) / 2);
  int expected = 0, most = 0;
  for (int other = rank % 2; other < ranks; other += 2) expected += other, most = other;
  EXPECT(sum_on(halves) == expected);
  first = rank;
  GOOD(MPI_Bcast(&first, 1, MPI_INT, 0, halves));
  EXPECT(first == most);
  collectives(halves);
  GOOD(MPI_Comm_split(MPI_COMM_WORLD, rank == 1 ? MPI_UNDEFINED : 0, rank, &none));
  EXPECT((none == MPI_COMM_NULL) == (rank == 1));
  if (rank != 1) {
    EXPECT(sum_on(none) == ranks * (ranks - 1) / 2 - (ranks > 1));
    GOOD(MPI_Comm_free(&none));
  }
  GOOD(MPI_Comm_dup(halves, &same));
  GOOD(MPI_Comm_dup(same, &twice));
  GOOD(MPI_Comm_free(&same));
  EXPECT(same == MPI_COMM_NULL);
  EXPECT(sum_on(twice) == expected);
  GOOD(MPI_Comm_free(&twice));
  GOOD(MPI_Comm_free(&halves));
  GOOD(MPI_Comm_free(&reversed));

  char name[MPI_MAX_PROCESSOR_NAME];
  char* names = calloc(ranks, sizeof(name));
  memset(name, 0, sizeof(name));
  int length = 0, alike = 0;
  GOOD(MPI_Get_processor_name(name, &length));
  EXPECT(length == (int)strlen(name) && length > 0);
  GOOD(MPI_Allgather(name, sizeof(name), MPI_CHAR, names, sizeof(name), MPI_CHAR, MPI_COMM_WORLD));
  for (int other = 0; other < ranks; ++other) alike += strcmp(names + other * sizeof(name), name) == 0;
  GOOD(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node));
  GOOD(MPI_Comm_size(node, &size));
  EXPECT(size == alike);
  printf("rank %d: %d on this node\n", rank, size);
  GOOD(MPI_Comm_free(&node));
  GOOD(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_UNDEFINED, rank, MPI_INFO_NULL, &node));
  EXPECT(node == MPI_COMM_NULL);
  free(names);

  GOOD(MPI_Comm_size(MPI_COMM_SELF, &size));
  EXPECT(size == 1 && sum_on(MPI_COMM_SELF) == rank);
  collectives(MPI_COMM_SELF);
}

/* --- messages --- */

static unsigned char byte_of(int from, int index) { return (unsigned char)(from * 31 + index * 7 + index / 256); }

static void messages(void) {
  enum { kLarge = 100000 };
  const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  MPI_Status status;
  int count = -1, values[2] = {rank, rank + 50}, got[3] = {-1, -1, -1};
  /* Two tags, received out of order; two of one tag, in order. */
  GOOD(MPI_Send(&values[0], 1, MPI_INT, next, 5, MPI_COMM_WORLD));
  GOOD(MPI_Send(&values[1], 1, MPI_INT, next, 6, MPI_COMM_WORLD));
  GOOD(MPI_Send(values, 2, MPI_INT, next, 5, MPI_COMM_WORLD));
  GOOD(MPI_Recv(got, 1, MPI_INT, before, 6, MPI_COMM_WORLD, &status));
  EXPECT(got[0] == before + 50 && status.MPI_SOURCE == before && status.MPI_TAG == 6);
  GOOD(MPI_Recv(got, 1, MPI_INT, before, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  EXPECT(got[0] == before);
  GOOD(MPI_Recv(got, 3, MPI_INT, before, 5, MPI_COMM_WORLD, &status));
  GOOD(MPI_Get_count(&status, MPI_INT, &count));
  EXPECT(count == 2 && got[0] == before && got[1] == before + 50 && got[2] == -1);
  GOOD(MPI_Get_count(&status, MPI_BYTE, &count));
  EXPECT(count == 8);
  /* No bytes. */
  GOOD(MPI_Sendrecv(NULL, 0, MPI_BYTE, next, 7, got, 3, MPI_INT, before, 7, MPI_COMM_WORLD, &status));
  GOOD(MPI_Get_count(&status, MPI_INT, &count));
  EXPECT(count == 0 && got[0] == before);
  /* Many bytes, both ways at once. */
  unsigned char *sent = malloc(kLarge), *there = malloc(kLarge), *back = malloc(kLarge);
  for (int index = 0; index < kLarge; ++index) sent[index] = byte_of(rank, index);
  MPI_Request requests[5];
  GOOD(MPI_Irecv(there, kLarge, MPI_BYTE, before, 1, MPI_COMM_WORLD, &requests[0]));
  GOOD(MPI_Irecv(back, kLarge, MPI_BYTE, next, 2, MPI_COMM_WORLD, &requests[1]));
  GOOD(MPI_Isend(sent, kLarge, MPI_BYTE, next, 1, MPI_COMM_WORLD, &requests[2]));
  GOOD(MPI_Isend(sent, kLarge, MPI_BYTE, before, 2, MPI_COMM_WORLD, &requests[3]));
  requests[4] = MPI_REQUEST_NULL;
  MPI_Status statuses[5];
  GOOD(MPI_Waitall(5, requests, statuses));
  EXPECT(statuses[0].MPI_SOURCE == before && statuses[0].MPI_TAG == 1);
  EXPECT(statuses[1].MPI_SOURCE == next && statuses[1].MPI_TAG == 2);
  for (int index = 0; index < 5; ++index) EXPECT(requests[index] == MPI_REQUEST_NULL);
  int differ = 0;
  for (int index = 0; index < kLarge; ++index) {
    differ += there[index] != byte_of(before, index) || back[index] != byte_of(next, index);
  }
  EXPECT(differ == 0);
  /* A broadcast of as many, and to oneself. */
  const int last = ranks - 1;
  if (rank == last) memcpy(there, sent, kLarge);
  GOOD(MPI_Bcast(there, kLarge, MPI_BYTE, last, MPI_COMM_WORLD));
  EXPECT(there[kLarge - 1] == byte_of(last, kLarge - 1));
  got[0] = -1;
  GOOD(MPI_Sendrecv(&values[1], 1, MPI_INT, rank, 0, got, 1, MPI_INT, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  EXPECT(got[0] == rank + 50);
  GOOD(MPI_Send(&values[0], 1, MPI_INT, 0, 0, MPI_COMM_SELF));
  GOOD(MPI_Recv(got, 1, MPI_INT, 0, 0, MPI_COMM_SELF, &status));
  EXPECT(got[0] == rank && status.MPI_SOURCE == 0);
  /* No peer. */
  got[0] = -1;
  GOOD(MPI_Send(values, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD));
  GOOD(MPI_Recv(got, 1, MPI_INT, MPI_PROC_NULL, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
  GOOD(MPI_Get_count(&status, MPI_INT, &count));
  EXPECT(got[0] == -1 && count == 0 && status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG);
  GOOD(MPI_Irecv(got, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &requests[0]));
  GOOD(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
  GOOD(MPI_Wait(&requests[0], &status)); /* MPI_REQUEST_NULL */
  EXPECT(status.MPI_SOURCE == MPI_ANY_SOURCE);
  free(back);
  free(there);
  free(sent);
}

/* What a communicator with MPI_ERRORS_RETURN returns, and that the ranks can go on behind it. */
static void returned_errors(void) {
  MPI_Comm comm;
  const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  int values[4] = {rank, rank, rank, rank}, got[4] = {0};
  GOOD(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  GOOD(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
  GOOD(MPI_Send(values, 4, MPI_INT, next, 0, comm));
  EXPECT(MPI_Recv(got, 2, MPI_INT, before, 0, comm, MPI_STATUS_IGNORE) == MPI_ERR_TRUNCATE);
  /* One of two requests fails; the other is completed. */
  MPI_Request requests[2];
  MPI_Status statuses[2];
  GOOD(MPI_Send(values, 4, MPI_INT, next, 1, comm));
  GOOD(MPI_Send(values, 1, MPI_INT, next, 2, comm));
  GOOD(MPI_Irecv(got, 2, MPI_INT, before, 1, comm, &requests[0]));
  GOOD(MPI_Irecv(got, 4, MPI_INT, before, 2, comm, &requests[1]));
  EXPECT(MPI_Waitall(2, requests, statuses) == MPI_ERR_IN_STATUS);
  EXPECT(statuses[0].MPI_ERROR == MPI_ERR_TRUNCATE && statuses[1].MPI_ERROR == MPI_SUCCESS && got[0] == before);
  EXPECT(MPI_Bcast(values, 1, MPI_INT, ranks, comm) == MPI_ERR_ROOT);
  EXPECT(MPI_Reduce(values, got, 1, MPI_INT, MPI_SUM, -1, comm) == MPI_ERR_ROOT);
  EXPECT(MPI_Bcast(values, -1, MPI_INT, 0, comm) == MPI_ERR_COUNT);
  EXPECT(MPI_Bcast(values, 1, MPI_DATATYPE_NULL, 0, comm) == MPI_ERR_TYPE);
  EXPECT(MPI_Send(values, 1, MPI_INT, ranks, 0, comm) == MPI_ERR_RANK);
  EXPECT(MPI_Send(values, 1, MPI_INT, next, -7, comm) == MPI_ERR_TAG);
#ifdef MESHBED_MPI_H_
  EXPECT(MPI_Recv(got, 1, MPI_INT, MPI_ANY_SOURCE, 0, comm, MPI_STATUS_IGNORE) == MPI_ERR_ARG);
  EXPECT(MPI_Recv(got, 1, MPI_INT, next, MPI_ANY_TAG, comm, MPI_STATUS_IGNORE) == MPI_ERR_ARG);
  EXPECT(MPI_Recv(got, 1, MPI_INT, rank, 40, comm, MPI_STATUS_IGNORE) == MPI_ERR_OTHER); /* sent by none */
#endif
  /* Counts of the ranks that differ. */
  EXPECT((MPI_Allreduce(values, got, rank == 1 ? 2 : 1, MPI_INT, MPI_SUM, comm) == MPI_ERR_TRUNCATE));
  EXPECT((MPI_Bcast(got, rank == 1 ? 2 : 1, MPI_INT, 1, comm) == MPI_SUCCESS) == (rank == 1));
  /* Too much, by rank 1 alone, and of all together. */
  enum { kMuch = 17 << 20 };
  char *much = calloc(1, kMuch), *all = calloc(ranks, kMuch);
  EXPECT(MPI_Send(much, kMuch, MPI_BYTE, next, 3, comm) == MPI_ERR_OTHER);
  EXPECT(MPI_Bcast(much, kMuch, MPI_BYTE, 1, comm) == MPI_ERR_OTHER);
  const int each = (16 << 20) / ranks + 1;
  EXPECT(MPI_Allgather(much, each, MPI_BYTE, all, each, MPI_BYTE, comm) == MPI_ERR_OTHER);
  much[0] = (char)(rank + 1);
  GOOD(MPI_Send(much, 1, MPI_BYTE, next, 3, comm));
  GOOD(MPI_Recv(all, 1, MPI_BYTE, before, 3, comm, MPI_STATUS_IGNORE));
  EXPECT(all[0] == before + 1);
  free(all);
  free(much);
  EXPECT(sum_on(comm) == ranks * (ranks - 1) / 2);
  /* A request outlives the name of its communicator. */
  GOOD(MPI_Send(values, 1, MPI_INT, next, 9, comm));
  GOOD(MPI_Irecv(got, 1, MPI_INT, before, 9, comm, &requests[0]));
  GOOD(MPI_Comm_free(&comm));
  GOOD(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
  EXPECT(got[0] == before);
  GOOD(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  comm = MPI_COMM_WORLD;
#ifdef MESHBED_MPI_H_
  EXPECT(MPI_Comm_free(&comm) == MPI_ERR_COMM);
#endif
  GOOD(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
}

/* --- threads: MPI_THREAD_SERIALIZED --- */

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both_have_sent;
static MPI_Comm of_thread[2];

static void* talk(void* index) {
  const MPI_Comm comm = of_thread[(intptr_t)index];
  for (int round = 0; round < 5; ++round) {
    int value = rank + round, next = (rank + 1) % ranks, got = -1;
    pthread_mutex_lock(&turn);
    GOOD(MPI_Send(&value, 1, MPI_INT, next, (int)(intptr_t)index, comm));
    pthread_mutex_unlock(&turn);
    pthread_barrier_wait(&both_have_sent);  // who waits for a message keeps the turn: all have to be on their way
    pthread_mutex_lock(&turn);
    GOOD(MPI_Recv(&got, 1, MPI_INT, (rank + ranks - 1) % ranks, (int)(intptr_t)index, comm, MPI_STATUS_IGNORE));
    EXPECT(got == (rank + ranks - 1) % ranks + round);
    pthread_mutex_unlock(&turn);
  }
  return NULL;
}

static void threads(void) {
  pthread_t other;
  GOOD(MPI_Comm_dup(MPI_COMM_WORLD, &of_thread[0]));
  GOOD(MPI_Comm_dup(MPI_COMM_WORLD, &of_thread[1]));
  EXPECT(pthread_barrier_init(&both_have_sent, NULL, 2) == 0);
  EXPECT(pthread_create(&other, NULL, talk, (void*)1) == 0);
  talk((void*)0);
  EXPECT(pthread_join(other, NULL) == 0);
  EXPECT(pthread_barrier_destroy(&both_have_sent) == 0);
  GOOD(MPI_Comm_free(&of_thread[0]));
  GOOD(MPI_Comm_free(&of_thread[1]));
}

/* --- facts --- */

static double monotonic_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)(now.tv_sec * 1000000000L + now.tv_nsec) * 1e-9;
}

static void facts(int provided) {
  int flag = 0, level = -1, version = 0, subversion = 0, length = 0;
  char text[MPI_MAX_LIBRARY_VERSION_STRING], error[MPI_MAX_ERROR_STRING];
  GOOD(MPI_Initialized(&flag));
  EXPECT(flag == 1);
  GOOD(MPI_Finalized(&flag));
  EXPECT(flag == 0);
  GOOD(MPI_Query_thread(&level));
  EXPECT(level == provided && provided == MPI_THREAD_SERIALIZED);
  GOOD(MPI_Get_version(&version, &subversion));
  EXPECT(version == 3 && subversion == 1);
  GOOD(MPI_Get_library_version(text, &length));
  EXPECT(length == (int)strlen(text));
  EXPECT(strstr(text, "Meshbed") != NULL);
  GOOD(MPI_Error_string(MPI_ERR_TRUNCATE, error, &length));
  EXPECT(length == (int)strlen(error) && length > 0);
  const double before = monotonic_s(), seen = MPI_Wtime(), after = monotonic_s();
  EXPECT(before <= seen && seen <= after && MPI_Wtick() > 0 && MPI_Wtick() <= 1e-3);
}

/* Each of these ends the job. */
static void end_badly(const char* story) {
  int value = rank, got[64] = {0};
  GOOD(MPI_Barrier(MPI_COMM_WORLD));
  if (strcmp(story, "leaves") == 0 && rank == 1) exit(0);
  if (strcmp(story, "root leaves") == 0 && rank == 0) exit(0);
  if (strcmp(story, "abort") == 0 && rank == 1) MPI_Abort(MPI_COMM_WORLD, 7);
  if (strcmp(story, "root") == 0) MPI_Bcast(&value, 1, MPI_INT, rank == 1 ? ranks : 0, MPI_COMM_WORLD);
  if (strcmp(story, "any source") == 0) MPI_Recv(got, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, NULL);
  if (strcmp(story, "counts") == 0) MPI_Gather(got, rank + 1, MPI_INT, got + 4, 1, MPI_INT, 0, MPI_COMM_WORLD);
  if (strcmp(story, "twice") == 0 && rank == 1) MPI_Init(NULL, NULL);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
  printf("rank %d: went on\n", rank);
}

int main(int argc, char** argv) {
  int flag = 1, provided = -1;
  const char* const story = getenv("STORY");
  setvbuf(stdout, NULL, _IOLBF, 0);
  GOOD(MPI_Initialized(&flag));
  EXPECT(flag == 0);
  GOOD(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
  GOOD(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  GOOD(MPI_Comm_size(MPI_COMM_WORLD, &ranks));
  if (story != NULL) {
    end_badly(story);
    return MPI_Finalize();
  }
  facts(provided);
  reductions();
  collectives(MPI_COMM_WORLD);
  communicators();
  messages();
  if (ranks > 1) returned_errors();
  threads();
  GOOD(MPI_Finalize());
  GOOD(MPI_Finalized(&flag));
  EXPECT(flag == 1);
  printf("rank %d of %d: %s\n", rank, ranks, wrong == 0 ? "all is right" : "WRONG");
  return wrong != 0;
}
