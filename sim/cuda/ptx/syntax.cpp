#include "sim/cuda/ptx/syntax.h"

#include <iterator>

namespace meshbed::sim::ptx {

namespace {

struct TypeRow {
  const char* name;
  Type type;
  std::uint32_t bytes;
};
constexpr TypeRow kTypes[] = {
    {"pred", Type::kPred, 4},  {"b8", Type::kB8, 1},       {"u8", Type::kU8, 1},         {"s8", Type::kS8, 1},
    {"b16", Type::kB16, 2},    {"u16", Type::kU16, 2},     {"s16", Type::kS16, 2},       {"f16", Type::kF16, 2},
    {"bf16", Type::kBf16, 2},  {"b32", Type::kB32, 4},     {"u32", Type::kU32, 4},       {"s32", Type::kS32, 4},
    {"f32", Type::kF32, 4},    {"f16x2", Type::kF16x2, 4}, {"bf16x2", Type::kBf16x2, 4}, {"tf32", Type::kTf32, 4},
    {"b64", Type::kB64, 8},    {"u64", Type::kU64, 8},     {"s64", Type::kS64, 8},       {"f64", Type::kF64, 8},
    {"b128", Type::kB128, 16},
};

}  // namespace

Type type_named(std::string_view dotted) {
  for (const TypeRow& row : kTypes) {
    if (dotted == row.name) return row.type;
  }
  return Type::kNone;
}

std::uint32_t bytes_of(Type type) {
  for (const TypeRow& row : kTypes) {
    if (type == row.type) return row.bytes;
  }
  return 0;
}

bool is_signed(Type type) {
  return type == Type::kS8 || type == Type::kS16 || type == Type::kS32 || type == Type::kS64;
}

bool is_integer(Type type) {
  switch (type) {
    case Type::kNone:
    case Type::kPred:
    case Type::kF16:
    case Type::kBf16:
    case Type::kF32:
    case Type::kF16x2:
    case Type::kBf16x2:
    case Type::kTf32:
    case Type::kF64:
      return false;
    default:
      return true;
  }
}

Type type_in_register(Type type) { return bytes_of(type) != 1 ? type : is_signed(type) ? Type::kS16 : Type::kU16; }

Special special_named(std::string_view name) {
  static constexpr std::pair<std::string_view, Special> kAll[] = {
      {"%tid", Special::kTid},
      {"%ntid", Special::kNtid},
      {"%ctaid", Special::kCtaid},
      {"%nctaid", Special::kNctaid},
      {"%laneid", Special::kLane},
      {"%warpid", Special::kWarp},
      {"%nwarpid", Special::kWarps},
      {"%smid", Special::kSm},
      {"%nsmid", Special::kSms},
      {"%gridid", Special::kZero},
      {"%clock", Special::kClock},
      {"%clock64", Special::kClock},
      {"%clock_hi", Special::kClockHigh},
      {"%globaltimer", Special::kTimer},
      {"%globaltimer_lo", Special::kTimer},
      {"%globaltimer_hi", Special::kTimerHigh},
      {"%lanemask_eq", Special::kMaskEq},
      {"%lanemask_le", Special::kMaskLe},
      {"%lanemask_lt", Special::kMaskLt},
      {"%lanemask_ge", Special::kMaskGe},
      {"%lanemask_gt", Special::kMaskGt},
      {"%dynamic_smem_size", Special::kDynamicShared},
      {"%total_smem_size", Special::kTotalShared},
      {"%aggr_smem_size", Special::kTotalShared},
      {"%clusterid", Special::kClusterId},
      {"%nclusterid", Special::kClusterCount},
      {"%cluster_ctaid", Special::kClusterCtaid},
      {"%cluster_nctaid", Special::kClusterNctaid},
      {"%cluster_ctarank", Special::kClusterRank},
      {"%cluster_nctarank", Special::kClusterSize},
      {"%is_explicit_cluster", Special::kExplicitCluster},
      {"%current_graph_exec", Special::kZero},
      {"%reserved_smem_offset_begin", Special::kReservedShared},
      {"%reserved_smem_offset_end", Special::kReservedEnd},
      {"%reserved_smem_offset_cap", Special::kReservedEnd},
      {"%reserved_smem_offset_0", Special::kReservedShared},
      {"%reserved_smem_offset_1", Special::kReservedShared},
      // What cooperative groups find their grid's workspace by: its address in two halves (driver_abi.h).
      {"%envreg1", Special::kWorkspaceHigh},
      {"%envreg2", Special::kWorkspaceLow}};
  for (const auto& [known, special] : kAll) {
    if (known == name) return special;
  }
  return name.substr(0, 7) == "%envreg" || name.substr(0, 3) == "%pm" ? Special::kOther : Special::kNone;
}

std::string spelled(const Statement& statement) {
  std::string text(statement.opcode);
  for (const std::string_view modifier : statement.modifiers) text.append(".").append(modifier);
  return text;
}

}  // namespace meshbed::sim::ptx
