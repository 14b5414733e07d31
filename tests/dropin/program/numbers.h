/* Numbers that ranks give to a collective, of every type, and what comes out: values such that no order of a sum
 * rounds, known bit by bit. */
#ifndef MESHBED_TESTS_DROPIN_NUMBERS_H
#define MESHBED_TESTS_DROPIN_NUMBERS_H
#include <nccl.h>
#include <stdint.h>
#include <string.h>

enum form { kSigned, kUnsigned, kReal };
struct kind {
  const char* name;
  ncclDataType_t type;
  int bytes;
  enum form form;
  int bits; /* of a real number's values: a sum of 8 ranks' is exact, in any order */
};
static const struct kind kinds[] = {
    {"int8", ncclInt8, 1, kSigned, 0},      {"uint8", ncclUint8, 1, kUnsigned, 0},
    {"int32", ncclInt32, 4, kSigned, 0},    {"uint32", ncclUint32, 4, kUnsigned, 0},
    {"int64", ncclInt64, 8, kSigned, 0},    {"uint64", ncclUint64, 8, kUnsigned, 0},
    {"float16", ncclFloat16, 2, kReal, 8},  {"bfloat16", ncclBfloat16, 2, kReal, 5},
    {"float32", ncclFloat32, 4, kReal, 21}, {"float64", ncclFloat64, 8, kReal, 50},
};
enum { kInt32 = 2, kFloat32 = 8, kKinds = sizeof kinds / sizeof kinds[0] };
static const char* const op_names[] = {"sum", "prod", "max", "min", "avg"};

/* Of rank r's element i in round `round`. */
static uint64_t mixed(int r, int round, size_t i) {
  uint64_t x = (uint64_t)i * 0x9E3779B97F4A7C15u + (uint64_t)(r + 1) * 0xBF58476D1CE4E5B9u + (uint64_t)round * 1000003u;
  x ^= x >> 31;
  x *= 0x94D049BB133111EBu;
  return x ^ (x >> 29);
}

/* A real number's value: a whole one, and for a product 1 or 2. */
static double real(const struct kind* kind, ncclRedOp_t op, int r, int round, size_t i) {
  const uint64_t bits = mixed(r, round, i) >> 8;
  return op == ncclProd ? (double)(1 + (bits & 1)) : (double)(bits & (((uint64_t)1 << kind->bits) - 1));
}

static void put_real(const struct kind* kind, void* at, double value) {
  const float narrow = (float)value;
  uint32_t word;
  uint16_t half;
  memcpy(&word, &narrow, sizeof word);
  if (kind->type == ncclFloat64) memcpy(at, &value, sizeof value);
  if (kind->type == ncclFloat32) memcpy(at, &narrow, sizeof narrow);
  if (kind->bytes != 2) return;
  half = (uint16_t)(word >> 16);
  /* Never negative, and normal in 16 bits: another exponent and fewer bits, of which none is set. */
  if (kind->type == ncclFloat16)
    half = word == 0 ? 0 : (uint16_t)((((word >> 23) - 112) << 10) | ((word >> 13) & 1023));
  memcpy(at, &half, sizeof half);
}

/* Little-endian, as all machines here are: the lowest bytes. */
static void put_whole(const struct kind* kind, void* at, uint64_t value) { memcpy(at, &value, (size_t)kind->bytes); }

static uint64_t whole(const struct kind* kind, int r, int round, size_t i) {
  const int spare = 64 - 8 * kind->bytes;
  const uint64_t value = mixed(r, round, i) << spare;
  return kind->form == kSigned ? (uint64_t)((int64_t)value >> spare) : value >> spare;
}

/* Elements [from, from + count) as rank r gives them. */
static void give(const struct kind* kind, ncclRedOp_t op, int r, int round, size_t from, size_t count, char* to) {
  for (size_t i = 0; i < count; ++i, to += kind->bytes) {
    if (kind->form == kReal) {
      put_real(kind, to, real(kind, op, r, round, from + i));
    } else {
      put_whole(kind, to, whole(kind, r, round, from + i));
    }
  }
}

/* The same, of all ranks together. */
static void combine(const struct kind* kind, ncclRedOp_t op, int world, int round, size_t from, size_t count,
                    char* to) {
  for (size_t i = from; i < from + count; ++i, to += kind->bytes) {
    double number = kind->form == kReal ? real(kind, op, 0, round, i) : 0;
    uint64_t sum = kind->form != kReal ? whole(kind, 0, round, i) : 0;
    for (int r = 1; r < world; ++r) {
      if (kind->form == kReal) {
        const double next = real(kind, op, r, round, i);
        if (op == ncclSum || op == ncclAvg) number += next;
        if (op == ncclProd) number *= next;
        if ((op == ncclMax && next > number) || (op == ncclMin && next < number)) number = next;
        continue;
      }
      const uint64_t next = whole(kind, r, round, i);
      const int less = kind->form == kSigned ? (int64_t)next < (int64_t)sum : next < sum;
      if (op == ncclSum) sum += next;
      if (op == ncclProd) sum *= next;
      if ((op == ncclMax && !less) || (op == ncclMin && less)) sum = next;
    }
    if (op == ncclAvg) number /= world;
    if (kind->form == kReal) {
      put_real(kind, to, number);
    } else {
      put_whole(kind, to, sum);
    }
  }
}
#endif
