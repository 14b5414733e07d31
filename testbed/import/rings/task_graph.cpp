// MPK's task graph as a slot graph.
//
// Nomenclature as in MPK (include/mirage/persistent_kernel/runtime_header.h): an event is triggered by tasks and then
// launches those from first_task_id to last_task_id, or (EVENT_LAUNCH_DEPENDENT_TASKS) those whose dependent_event it
// is. The id of an event has the GPU that owns it in bits 32 to 47 and a tag where another GPU triggers it.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "testbed/base/closest_name.h"
#include "testbed/import/rings/ring_import.h"
#include "testbed/import/rings/task_types.h"

namespace meshbed::testbed::rings {
namespace {

using nlohmann::json;

constexpr std::uint64_t kInvalidEvent = 0x7ffffffffffffffe;
constexpr std::uint64_t kOtherGpusEvent = 0x1e00000000000000;
constexpr std::size_t kGpusMost = 64, kTasksMost = 1 << 19;

struct Task {
  int type = 0;
  std::uint64_t triggers = kInvalidEvent, needs = kInvalidEvent;
  std::uint64_t bytes = 0;  // of its output
};

struct TaskEvent {
  int type = 0;
  std::uint64_t triggers = 0, first = 0, last = 0;
};

struct Gpu {
  std::string path;
  std::vector<Task> tasks{};
  std::vector<TaskEvent> events{};
};

bool is_valid(std::uint64_t event) { return event != kInvalidEvent && event != 0; }
std::uint64_t position_of(std::uint64_t event) { return event & 0xffff'ffffU; }
std::size_t gpu_of(std::uint64_t event) { return (event >> 32U) & 0xffffU; }
bool is_of_another_gpu(std::uint64_t event) { return (event & kOtherGpusEvent) != 0; }

std::uint64_t number_of(const json& of, const char* key, const std::string& path, const std::string& where) {
  const auto found = of.find(key);
  if (found == of.end() || !found->is_number_integer()) {
    refuse(path, fmt::format("{}: '{}' is missing, or not a whole number", where, key));
  }
  // MPK's ids use all 63 bits; -1 stands for none of some others.
  return found->is_number_unsigned() ? found->get<std::uint64_t>()
                                     : static_cast<std::uint64_t>(found->get<std::int64_t>());
}

/// include/mirage/type.h: the tens of a type's number say how many bits it has.
std::uint64_t element_bytes_of(std::uint64_t data_type, const std::string& path, const std::string& where) {
  if (data_type >= 930 && data_type < 940) return 1;
  if (data_type >= 940 && data_type < 950) return 2;
  if (data_type >= 950 && data_type < 960) return 4;
  if (data_type >= 960 && data_type < 970) return 8;
  refuse(path, fmt::format("{}: data_type {} has no whole number of bytes that is known here", where, data_type));
}

std::uint64_t bytes_of(const json& tensor, const std::string& path, const std::string& where) {
  std::uint64_t bytes = element_bytes_of(number_of(tensor, "data_type", path, where), path, where);
  const auto dims = tensor.find("dims");
  if (dims == tensor.end() || !dims->is_array()) refuse(path, where + ": 'dims' is missing, or not a list");
  constexpr std::uint64_t kBytesMost = 1ULL << 32U;
  for (const json& dim : *dims) {
    if (!dim.is_number_unsigned() || dim.get<std::uint64_t>() == 0 || dim.get<std::uint64_t>() > kBytesMost / bytes) {
      refuse(path, where + ": 'dims' has a size that is no number from 1, or the tensor has more than 4 GiB");
    }
    bytes *= dim.get<std::uint64_t>();
  }
  return bytes;
}

const json& list_of(const json& graph, const char* key, const std::string& path) {
  const auto found = graph.find(key);
  if (found == graph.end() || !found->is_array()) {
    refuse(path,
           fmt::format("there is no list '{}'; expected is MPK's task graph, with all_tasks and all_events", key));
  }
  if (found->size() > kTasksMost)
    refuse(path, fmt::format("'{}' has {} entries; at most {} are read", key, found->size(), kTasksMost));
  return *found;
}

Gpu read_gpu(const ImportText& file) {
  json graph;
  try {
    graph = json::parse(file.text);
  } catch (const json::exception& error) {
    refuse(file.path, error.what());
  }
  if (!graph.is_object())
    refuse(file.path, "expected is MPK's task graph: a JSON object with all_tasks and all_events");
  Gpu gpu{.path = file.path};
  for (const json& each : list_of(graph, "all_tasks", file.path)) {
    const std::string where = fmt::format("all_tasks[{}]", gpu.tasks.size());
    if (!each.is_object()) refuse(file.path, where + " is no object");
    Task task;
    task.type = static_cast<int>(number_of(each, "task_type", file.path, where));
    task.triggers = number_of(each, "trigger_event", file.path, where);
    task.needs = number_of(each, "dependent_event", file.path, where);
    if (task.type == kTaskCopy) {
      const auto outputs = each.find("outputs");
      if (outputs == each.end() || !outputs->is_array() || outputs->empty()) {
        refuse(file.path, where + ": a TASK_NVSHMEM_COPY without 'outputs' has no size");
      }
      task.bytes = bytes_of(outputs->front(), file.path, where + ".outputs[0]");
    }
    gpu.tasks.push_back(task);
  }
  for (const json& each : list_of(graph, "all_events", file.path)) {
    const std::string where = fmt::format("all_events[{}]", gpu.events.size());
    if (!each.is_object()) refuse(file.path, where + " is no object");
    TaskEvent event;
    event.type = static_cast<int>(number_of(each, "event_type", file.path, where));
    event.triggers = number_of(each, "num_triggers", file.path, where);
    event.first = number_of(each, "first_task_id", file.path, where);
    event.last = number_of(each, "last_task_id", file.path, where);
    const bool launches = event.type == kEventLaunchTasks || event.type == kEventLaunchMassiveTasks;
    if (launches && (event.first > event.last || event.last > gpu.tasks.size())) {
      refuse(file.path, fmt::format("{}: launches the tasks {} to {}, and there are {}", where, event.first, event.last,
                                    gpu.tasks.size()));
    }
    gpu.events.push_back(event);
  }
  return gpu;
}

/// Numbers of slots are known before they are made: [gpu] first the events, then the tasks, in the file's order.
class Maker {
 public:
  Maker(const std::vector<Gpu>& gpus, const TaskTimes& times) : gpus_(gpus), times_(times) {}

  ImportedGraph make() {
    const std::size_t ranks = gpus_.size();
    triggers_.resize(ranks);
    needs_.resize(ranks);
    for (std::size_t gpu = 0; gpu < ranks; ++gpu) {
      triggers_[gpu].resize(gpus_[gpu].events.size());
      needs_[gpu].resize(gpus_[gpu].tasks.size());
    }
    check_times();
    for (std::size_t gpu = 0; gpu < ranks; ++gpu) look_up(gpu);
    for (std::size_t gpu = 0; gpu < ranks; ++gpu) check_triggers(gpu);
    imported_.graph.ranks.resize(ranks);
    imported_.graph.speed.assign(ranks, 1.0);
    for (std::size_t gpu = 0; gpu < ranks; ++gpu) number(gpu);
    for (std::size_t gpu = 0; gpu < ranks; ++gpu) add_slots(gpu);
    return std::move(imported_);
  }

 private:
  struct Trigger {
    std::size_t gpu = 0, task = 0;
  };

  static bool is_slot(const Task& task) { return task.type != kTaskTerminate; }
  /// Events that nothing triggers or waits for are no slots.
  bool is_slot(std::size_t gpu, std::size_t event) const { return !triggers_[gpu][event].empty(); }

  std::optional<Picoseconds> time_of(int type) const {
    if (type == kTaskBegin || type == kTaskCopy) return 0;
    for (const std::string& name : {name_of_task(type), fmt::format("{}", type), std::string("all")}) {
      const auto found = times_.find(name);
      if (found != times_.end()) return found->second;
    }
    return std::nullopt;
  }

  void check_times() const {
    std::map<int, std::size_t> missing;
    for (const Gpu& gpu : gpus_) {
      for (const Task& task : gpu.tasks) {
        if (is_slot(task) && !time_of(task.type)) ++missing[task.type];
      }
    }
    check_names();
    if (missing.empty()) return;
    std::string list;
    for (const auto& [type, count] : missing) {
      list += fmt::format("{}{} ({} tasks)", list.empty() ? "" : ", ", name_of_task(type), count);
    }
    refuse(gpus_.front().path,
           fmt::format("the file has no times; give one for each type of task, as in --time {}=5us, or --time all=5us "
                       "for the others; without one are {}",
                       name_of_task(missing.begin()->first), list));
  }

  void check_names() const {
    std::set<std::string> known;
    for (const Gpu& gpu : gpus_) {
      for (const Task& task : gpu.tasks) {
        known.insert(name_of_task(task.type));
        known.insert(fmt::format("{}", task.type));
      }
    }
    for (const auto& [name, time] : times_) {
      if (name == "all" || known.count(name) > 0) continue;
      const std::string close = closest_name(name, {known.begin(), known.end()});
      refuse(gpus_.front().path, fmt::format("--time {}: no task has this type{}", name,
                                             close.empty() ? "" : fmt::format("; did you mean {}?", close)));
    }
  }

  const TaskEvent& event_at(std::size_t gpu, std::uint64_t id, const std::string& where) const {
    if (position_of(id) >= gpus_[gpu].events.size()) {
      refuse(gpus_[gpu].path,
             fmt::format("{} names event {}, and there are {}", where, position_of(id), gpus_[gpu].events.size()));
    }
    return gpus_[gpu].events[position_of(id)];
  }

  void look_up(std::size_t gpu) {
    const Gpu& own = gpus_[gpu];
    for (std::size_t index = 0; index < own.tasks.size(); ++index) {
      const Task& task = own.tasks[index];
      const std::string where = fmt::format("all_tasks[{}] of GPU {}", index, gpu);
      if (is_valid(task.triggers)) {
        const std::size_t target = is_of_another_gpu(task.triggers) ? gpu_of(task.triggers) : gpu;
        if (target >= gpus_.size()) {
          refuse(own.path,
                 fmt::format("{} triggers an event of GPU {}, and there are {} files: give one for each GPU, in "
                             "the order of their numbers",
                             where, target, gpus_.size()));
        }
        if (target != gpu && task.type != kTaskCopy) {
          refuse(own.path, where + " triggers an event of another GPU and is no TASK_NVSHMEM_COPY");
        }
        event_at(target, task.triggers, where);
        triggers_[target][position_of(task.triggers)].push_back({gpu, index});
      }
      if (is_valid(task.needs)) {
        event_at(gpu, task.needs, where);
        needs_[gpu][index].push_back(position_of(task.needs));
      }
    }
    for (std::size_t index = 0; index < own.events.size(); ++index) {
      const TaskEvent& event = own.events[index];
      if (event.type != kEventLaunchTasks && event.type != kEventLaunchMassiveTasks) continue;
      for (std::uint64_t task = event.first; task < event.last; ++task) {
        std::vector<std::uint64_t>& needs = needs_[gpu][task];
        if (std::find(needs.begin(), needs.end(), index) == needs.end()) needs.push_back(index);
      }
    }
  }

  /// An event that waits for more tasks than there are would never come. A copy in rows triggers once a row.
  void check_triggers(std::size_t gpu) const {
    std::vector<bool> waited_for(triggers_[gpu].size());
    for (const std::vector<std::uint64_t>& needs : needs_[gpu]) {
      for (const std::uint64_t event : needs) waited_for[event] = true;
    }
    for (std::size_t index = 0; index < triggers_[gpu].size(); ++index) {
      const TaskEvent& event = gpus_[gpu].events[index];
      const std::size_t found = triggers_[gpu][index].size();
      const bool of_copies = found > 0 && triggers_[gpu][index].front().gpu != gpu;
      const bool is_right = of_copies ? event.triggers % found == 0 : event.triggers == found;
      if (is_right || !waited_for[index]) continue;
      refuse(gpus_[gpu].path,
             fmt::format("all_events[{}] waits for {} triggers, and {} tasks trigger it: the tasks that "
                         "wait for it would never run",
                         index, event.triggers, found));
    }
  }

  void number(std::size_t gpu) {
    const Gpu& own = gpus_[gpu];
    std::size_t next = 0;
    std::vector<std::size_t>& events = event_slots_.emplace_back(own.events.size());
    std::vector<std::size_t>& tasks = task_slots_.emplace_back(own.tasks.size());
    for (std::size_t index = 0; index < own.tasks.size(); ++index) {
      if (is_slot(own.tasks[index])) tasks[index] = next++;
    }
    for (std::size_t index = 0; index < own.events.size(); ++index) {
      if (!is_slot(gpu, index)) continue;
      next += copies_of(gpu, index);
      events[index] = next++;
    }
  }

  std::size_t copies_of(std::size_t gpu, std::size_t event) const {
    const auto& all = triggers_[gpu][event];
    return static_cast<std::size_t>(
        std::count_if(all.begin(), all.end(), [&](const Trigger& one) { return one.gpu != gpu; }));
  }

  void add_slots(std::size_t gpu) {
    const Gpu& own = gpus_[gpu];
    const int rank = static_cast<int>(gpu);
    std::vector<GraphSlot>& slots = imported_.graph.ranks[gpu];
    std::uint64_t sent = 0, landed = 0;
    const auto room = [](std::uint64_t& used, std::uint64_t bytes) {
      constexpr std::uint64_t kAlignment = 64;
      const std::uint64_t offset = used;
      used += (bytes + kAlignment - 1) / kAlignment * kAlignment;
      return offset;
    };
    for (std::size_t index = 0; index < own.tasks.size(); ++index) {
      const Task& task = own.tasks[index];
      if (!is_slot(task)) continue;
      GraphSlot slot{.id = fmt::format("{}.{}", name_of_task(task.type), index)};
      for (const std::uint64_t event : needs_[gpu][index]) {
        if (is_slot(gpu, event)) slot.needs.push_back({.rank = rank, .slot = event_slots_[gpu][event]});
      }
      if (task.type == kTaskCopy && is_of_another_gpu(task.triggers) && gpu_of(task.triggers) != gpu) {
        slot.op = GraphOp::kPut;
        slot.peer = static_cast<int>(gpu_of(task.triggers));
        slot.bytes = task.bytes;
        slot.from = {.space = coll::Space::kInput, .offset_bytes = room(sent, task.bytes)};
      } else {
        slot.time_ns = static_cast<std::uint64_t>(*time_of(task.type) / kPicosecondsPerNanosecond);
      }
      slots.push_back(std::move(slot));
    }
    for (std::size_t event = 0; event < own.events.size(); ++event) {
      if (!is_slot(gpu, event)) continue;
      GraphSlot joined{.id = fmt::format("event{}", event)};
      for (const Trigger& trigger : triggers_[gpu][event]) {
        const GraphNeed need{.rank = static_cast<int>(trigger.gpu), .slot = task_slots_[trigger.gpu][trigger.task]};
        if (trigger.gpu == gpu) {
          joined.needs.push_back(need);
          continue;
        }
        GraphSlot wait{.id = fmt::format("event{}.{}.{}", event, trigger.gpu, trigger.task),
                       .op = GraphOp::kWait,
                       .needs = {need},
                       .lands = true};
        wait.to = {.space = coll::Space::kStaging,
                   .offset_bytes = room(landed, gpus_[trigger.gpu].tasks[trigger.task].bytes)};
        joined.needs.push_back({.rank = rank, .slot = slots.size()});
        slots.push_back(std::move(wait));
      }
      slots.push_back(std::move(joined));
    }
  }

  const std::vector<Gpu>& gpus_;
  const TaskTimes& times_;
  std::vector<std::vector<std::vector<Trigger>>> triggers_;     // [gpu][event]
  std::vector<std::vector<std::vector<std::uint64_t>>> needs_;  // [gpu][task] events
  std::vector<std::vector<std::size_t>> event_slots_, task_slots_;
  ImportedGraph imported_;
};

/// Lanes take slots in the file's order: one that needs a later one would wait with its lane held. So each rank's slots
/// are put in an order in which needs come first; those of a circle have none.
void order_slots(SlotGraph& graph, const std::string& path) {
  std::vector<std::vector<std::size_t>> order(graph.ranks.size()), place(graph.ranks.size());
  std::vector<std::vector<std::vector<GraphNeed>>> needed_by(graph.ranks.size());
  std::vector<std::vector<std::size_t>> open(graph.ranks.size());
  std::size_t all = 0;
  for (std::size_t rank = 0; rank < graph.ranks.size(); ++rank) {
    needed_by[rank].resize(graph.ranks[rank].size());
    open[rank].resize(graph.ranks[rank].size());
    place[rank].resize(graph.ranks[rank].size());
    all += graph.ranks[rank].size();
  }
  std::vector<GraphNeed> ready;
  for (std::size_t rank = 0; rank < graph.ranks.size(); ++rank) {
    for (std::size_t slot = 0; slot < graph.ranks[rank].size(); ++slot) {
      open[rank][slot] = graph.ranks[rank][slot].needs.size();
      for (const GraphNeed& need : graph.ranks[rank][slot].needs) {
        needed_by[static_cast<std::size_t>(need.rank)][need.slot].push_back({static_cast<int>(rank), slot});
      }
      if (open[rank][slot] == 0) ready.push_back({static_cast<int>(rank), slot});
    }
  }
  std::size_t done = 0;
  for (; done < ready.size(); ++done) {
    const GraphNeed now = ready[done];
    const auto rank = static_cast<std::size_t>(now.rank);
    place[rank][now.slot] = order[rank].size();
    order[rank].push_back(now.slot);
    for (const GraphNeed& next : needed_by[rank][now.slot]) {
      if (--open[static_cast<std::size_t>(next.rank)][next.slot] == 0) ready.push_back(next);
    }
  }
  if (done < all) {
    for (std::size_t rank = 0; rank < graph.ranks.size(); ++rank) {
      for (std::size_t slot = 0; slot < graph.ranks[rank].size(); ++slot) {
        if (open[rank][slot] > 0) {
          refuse(path, fmt::format("'{}' of GPU {} and {} more wait for one another in a circle",
                                   graph.ranks[rank][slot].id, rank, all - done - 1));
        }
      }
    }
  }
  for (std::size_t rank = 0; rank < graph.ranks.size(); ++rank) {
    std::vector<GraphSlot> slots;
    for (const std::size_t slot : order[rank]) {
      slots.push_back(std::move(graph.ranks[rank][slot]));
      for (GraphNeed& need : slots.back().needs) need.slot = place[static_cast<std::size_t>(need.rank)][need.slot];
    }
    graph.ranks[rank] = std::move(slots);
  }
}

}  // namespace

ImportedGraph import_task_graph(const std::vector<ImportText>& files, const TaskTimes& times) {
  if (files.empty() || files.size() > kGpusMost) {
    throw std::runtime_error(
        fmt::format("{} files; a task graph has 1 to {}, one for each GPU", files.size(), kGpusMost));
  }
  std::vector<Gpu> gpus;
  for (const ImportText& file : files) gpus.push_back(read_gpu(file));
  ImportedGraph imported = Maker(gpus, times).make();
  order_slots(imported.graph, files.front().path);
  imported.notes.emplace_back("times are those of --time: a task graph of MPK has none");
  return imported;
}

}  // namespace meshbed::testbed::rings
