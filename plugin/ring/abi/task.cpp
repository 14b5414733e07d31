#include "plugin/ring/abi/task.h"

namespace meshbed::ring {
namespace {

using Member = Word TaskWorkItem::*;
constexpr Member kMembers[kTaskWords] = {
    &TaskWorkItem::state,        &TaskWorkItem::op_handle,       &TaskWorkItem::tenant,
    &TaskWorkItem::priority,     &TaskWorkItem::input,           &TaskWorkItem::output,
    &TaskWorkItem::param,        &TaskWorkItem::continuation_pc, &TaskWorkItem::continuation_data,
    &TaskWorkItem::resume_epoch, &TaskWorkItem::task_id,         &TaskWorkItem::parent_task_id,
    &TaskWorkItem::age_ticks,    &TaskWorkItem::requeue_count,   &TaskWorkItem::yield_count,
    &TaskWorkItem::flags};

}  // namespace

std::string task_state_name(Word state) {
  static constexpr const char* kNames[] = {"EMPTY",  "READY",   "RUNNING",  "DONE",
                                           "PAUSED", "YIELDED", "REQUEUED", "FAULTED"};
  return state < task_state::kCount ? kNames[state] : "UNKNOWN(" + std::to_string(state) + ")";
}

std::array<Word, kTaskWords> words_of(const TaskWorkItem& task) {
  std::array<Word, kTaskWords> words{};
  for (Word index = 0; index < kTaskWords; ++index) words[index] = task.*kMembers[index];
  return words;
}

TaskWorkItem task_of(const std::array<Word, kTaskWords>& words) {
  TaskWorkItem task;
  for (Word index = 0; index < kTaskWords; ++index) task.*kMembers[index] = words[index];
  return task;
}

std::vector<std::uint8_t> encode_tasks(const std::vector<TaskWorkItem>& tasks) {
  std::vector<std::uint8_t> bytes(tasks.size() * kTaskWords * kWordBytes);
  for (std::size_t index = 0; index < tasks.size(); ++index) {
    const auto words = words_of(tasks[index]);
    for (Word word = 0; word < kTaskWords; ++word) store_word(bytes.data(), index * kTaskWords + word, words[word]);
  }
  return bytes;
}

Result<std::vector<TaskWorkItem>> decode_tasks(Bytes bytes) {
  constexpr std::uint64_t kTaskBytes = kTaskWords * kWordBytes;
  if (bytes.size() % kTaskBytes != 0) {
    return refused("tasks of " + std::to_string(bytes.size()) + " bytes: not whole ones of " +
                   std::to_string(kTaskBytes) + " bytes");
  }
  std::vector<TaskWorkItem> tasks;
  tasks.reserve(bytes.size() / kTaskBytes);
  for (std::size_t index = 0; index < bytes.size() / kTaskBytes; ++index) {
    std::array<Word, kTaskWords> words{};
    for (Word word = 0; word < kTaskWords; ++word) words[word] = load_word(bytes.data(), index * kTaskWords + word);
    tasks.push_back(task_of(words));
  }
  return tasks;
}

Publication publication_of(const MegakernelWorkItem& item, Word slot, Word tenant) {
  return {.slot = slot, .tenant = tenant, .opcode = item.op_handle, .args = {item.input, item.output, item.param}};
}

MegakernelWorkItem work_item_of(const Slot& slot) {
  return {.op_handle = slot.opcode, .input = slot.args[0], .output = slot.args[1], .param = slot.args[2]};
}

}  // namespace meshbed::ring
