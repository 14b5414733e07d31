#pragma once
// Task work items, and the short form of work that becomes a slot (vyre, commit ca35047). A task's states are
// not a slot's statuses.

#include <cstdint>
#include <string>
#include <vector>

#include "plugin/ring/abi/slot.h"

namespace meshbed::ring {

/// In the order of its words.
struct TaskWorkItem {
  Word state = task_state::kEmpty;
  Word op_handle = 0;
  Word tenant = 0;
  Word priority = 0;
  Word input = 0, output = 0, param = 0;  // handles
  Word continuation_pc = 0, continuation_data = 0;
  Word resume_epoch = 0;
  Word task_id = 0, parent_task_id = 0;
  Word age_ticks = 0;
  Word requeue_count = 0, yield_count = 0;
  Word flags = 0;  // task_flag

  bool operator==(const TaskWorkItem&) const = default;
};

/// "READY"; "UNKNOWN(9)".
std::string task_state_name(Word state);

std::array<Word, kTaskWords> words_of(const TaskWorkItem& task);
TaskWorkItem task_of(const std::array<Word, kTaskWords>& words);
std::vector<std::uint8_t> encode_tasks(const std::vector<TaskWorkItem>& tasks);
/// Errors: bytes that are no whole tasks.
Result<std::vector<TaskWorkItem>> decode_tasks(Bytes tasks);

/// Work that a slot does: the opcode is its handle, its three first arguments what it works on.
struct MegakernelWorkItem {
  Word op_handle = 0;
  Word input = 0, output = 0, param = 0;

  bool operator==(const MegakernelWorkItem&) const = default;
};
Publication publication_of(const MegakernelWorkItem& item, Word slot, Word tenant);
MegakernelWorkItem work_item_of(const Slot& slot);

}  // namespace meshbed::ring
