#pragma once
// The task and event types of Mirage's persistent kernel (mirage-project/mirage,
// include/mirage/persistent_kernel/runtime_header.h at 69b2958c).

#include <string>

namespace meshbed::testbed::rings {

inline constexpr int kTaskTerminate = 0, kTaskBegin = 10, kTaskCopy = 199;
inline constexpr int kEventLaunchTasks = 901, kEventLaunchMassiveTasks = 902;

/// Without "TASK_", as "LINEAR_SM100"; "type253" of one that is not known by name.
std::string name_of_task(int type);

}  // namespace meshbed::testbed::rings
