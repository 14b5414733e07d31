#pragma once
// Loopback net: a whole ncclNet v11 plugin inside the test program, over queues in memory, found as "STATIC_PLUGIN".
//
// It checks what the engine owes a plugin (memory registered on that connection, at most 32 requests, handles intact)
// and answers what a plugin may answer: nothing yet, no request now, an error with a WARN. All ranks are threads of one
// process, so one behaviour holds for all; a device index singles out a rank.

#include <cstdint>

namespace meshbed::test::loopback {

struct Behaviour {
  std::uint64_t seed = 1;
  int delay_percent = 0;  // chance that a call says "not yet", "no request now" or a request stays open a little longer
  int devices = 4;
  // -1: none. The error comes from calls on this device.
  int refuse_listen_device = -1;
  int refuse_connect_device = -1;
  int refuse_accept_device = -1;
  int stall_connect_device = -1;  // says "not yet" for ever
  int fail_send_device = -1;
  int fail_send_after = 0;  // sends that go well before
  // After so many steps (a connection that is there, a request taken, a request done) this device takes no more.
  int stall_device = -1;
  int stall_after = 0;
  // The receives of this device are reported without their data after so many.
  int early_device = -1;
  int early_after = 0;
};

/// Sets the behaviour from now on. Only while no communicator exists.
void configure(const Behaviour& behaviour);

/// The device that stalls has done so.
bool stalled();

/// What is open: comms, listeners, registrations, requests. Zero when all communicators are gone.
int open_objects();
std::uint64_t registrations_made();
std::uint64_t initialisations();

}  // namespace meshbed::test::loopback
