// The words and numbers of both layouts, against vyre, commit ca35047.
#include "plugin/ring/abi/abi.h"

#include <doctest/doctest.h>

#include <initializer_list>

namespace abi_test {

using namespace meshbed::ring;

TEST_CASE("a slot has 64 bytes, and each layout's arguments end with it") {
  CHECK(kSlotBytes == 64);
  CHECK(kSlotsMost == 268'435'455);
  for (const Abi abi : {Abi::k2026_04, Abi::k2026_05}) {
    const Layout& layout = layout_of(abi);
    CHECK(layout.abi == abi);
    CHECK(layout.arg0_word + layout.args_per_slot == kSlotWords);
    CHECK(layout.args_per_slot <= kArgsMost);
  }
}

TEST_CASE("which statuses are known, active, queued and free: the table of 2.1") {
  struct Row {
    Word value;
    bool known, queued, active, free;
  };
  for (const Row row : {Row{status::kEmpty, true, false, false, true}, Row{status::kPublished, true, true, true, false},
                        Row{status::kClaimed, true, true, true, false}, Row{status::kDone, true, false, false, true},
                        Row{status::kWaitIo, true, true, true, false}, Row{status::kYield, true, true, true, false},
                        Row{status::kRequeue, true, true, true, false}, Row{status::kFault, true, true, false, false},
                        Row{8, false, true, false, false}, Row{status::kIoOk, false, true, false, false},
                        Row{0xffff'ffff, false, true, false, false}}) {
    CAPTURE(row.value);
    CHECK(status::is_known(row.value) == row.known);
    CHECK(status::is_queued(row.value) == row.queued);
    CHECK(status::is_active(row.value) == row.active);
    CHECK(status::is_free(row.value) == row.free);
  }
}

TEST_CASE("the control buffer's words follow each other without a gap up to 140") {
  const Layout& now = kLayout2026_05;
  CHECK(control_word::kTenantMasks + kTenantMasksMost == now.tenant_quotas);
  CHECK(now.tenant_quotas + kTenantQuotasMost == now.tenant_fairness);
  CHECK(now.tenant_fairness + kTenantFairnessSlots == now.metrics);
  CHECK(now.metrics + kMetricsSlots == now.epoch);
  CHECK(now.epoch + 1 == now.priority_offsets);
  CHECK(now.priority_offsets + kPriorityOffsets == now.starvation_counter);
  CHECK(now.starvation_counter + 1 == now.priority_fairness);
  CHECK(now.priority_fairness + priority::kLevels == 141);
  CHECK(now.observables == now.control_min_words);
  CHECK(now.control_min_words * kWordBytes == 640);
  const Layout& before = kLayout2026_04;
  CHECK(control_word::kTenantMasks + kTenantMasksMost == before.observables);
  CHECK(before.metrics + kMetricsSlots == before.epoch);
  CHECK(before.epoch < before.control_min_words);
}

TEST_CASE("an opcode is the system's or a user's, and LOAD_MISS must not be published") {
  for (const Word op : {8U, 0xffefU, 0x1'0000U, 0x7fff'ffffU}) {
    CHECK(opcode::is_user(op));
    CHECK(opcode::is_publishable(op));
  }
  for (const Word op : {0U, 7U, 0xfff0U, 0xffffU, 0x8000'0000U, 0xffff'ffffU}) CHECK(opcode::is_system(op));
  for (const Word op :
       {opcode::kNop, opcode::kDfaStep, opcode::kBatchFence, opcode::kPrintf, opcode::kPackedSlot, opcode::kShutdown})
    CHECK(opcode::is_publishable(op));
  for (const Word op : {opcode::kLoadMiss, Word{0xfff0}, Word{0x8000'0000}, Word{0xffff'fffe}})
    CHECK_FALSE(opcode::is_publishable(op));
}

TEST_CASE("the debug log of 64 records has 1028 bytes, the IO queue 2048") {
  CHECK(debug_log_bytes(kDebugRecords) == 1028);
  CHECK(kIoQueueBytes == 2048);
}

TEST_CASE("a packed slot's table: one word for a single operation, two for up to three, three for five, four for six") {
  CHECK(packed_metadata_words(1) == 1);
  CHECK(packed_metadata_words(2) == 2);
  CHECK(packed_metadata_words(3) == 2);
  CHECK(packed_metadata_words(4) == 3);
  CHECK(packed_metadata_words(5) == 3);
  CHECK(packed_metadata_words(6) == 4);
}

}  // namespace abi_test
