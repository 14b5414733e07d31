#pragma once
// Plain machine: a class in which few mechanisms take time, so that a test sees one of them alone.

#include <initializer_list>
#include <utility>

#include "models/time/machine.h"

namespace meshbed::test {

using ParameterValue = std::pair<models::MachineParameter, double>;

/// One adapter of 10 GB/s without headers, hops of 10 us, launch 5 us; then `more`.
inline models::Machine plain_machine(std::initializer_list<ParameterValue> more) {
  models::Machine machine;
  const auto set = [&](const ParameterValue& each) {
    machine.set(each.first, {each.second, models::Basis::kMeasured, "this test"});
  };
  for (const ParameterValue& each : {ParameterValue{models::MachineParameter::kLaunchUs, 5},
                                     {models::MachineParameter::kNicGBps, 10},
                                     {models::MachineParameter::kPacketOverheadBytes, 0},
                                     {models::MachineParameter::kNetSimpleUs, 10}}) {
    set(each);
  }
  for (const ParameterValue& each : more) set(each);
  return machine;
}

/// The same, with Simple around a ring at every size.
inline models::Machine plain_ring_machine() {
  return plain_machine({{models::MachineParameter::kLlMaxBytes, 1},
                        {models::MachineParameter::kLl128MaxBytes, 1},
                        {models::MachineParameter::kTreeMaxBytes, 1}});
}

}  // namespace meshbed::test
