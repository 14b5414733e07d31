#include "models/queue.h"

#include <algorithm>
#include <cmath>

namespace meshbed::models {
namespace {

/// The first error stays; what follows it reads as 0.
class ParameterReader {
 public:
  explicit ParameterReader(const Profile& profile) : profile_(profile) {}
  Picoseconds time(const char* name) { return take(profile_.time_ps(name), Picoseconds{0}); }
  template <typename Model>
  Result<Model> result(Model model) const {
    if (failed_) return error_;
    return model;
  }

 private:
  template <typename Value>
  Value take(const Result<Value>& found, Value otherwise) {
    if (found) return *found;
    if (!failed_) error_ = found.error();
    failed_ = true;
    return otherwise;
  }
  const Profile& profile_;
  bool failed_ = false;
  Error error_{};
};

}  // namespace

Result<QueueModel> queue_model(const Profile& profile) {
  ParameterReader read(profile);
  QueueModel queue;
  queue.publish_ps = read.time("publish");
  queue.visibility_ps = read.time("visibility");
  queue.claim_ps = read.time("claim");
  queue.poll_ps = read.time("poll");
  queue.doorbell_ps = read.time("doorbell");
  queue.post_ps = read.time("post");
  queue.flag_ps = read.time("flag");
  queue.credit_ps = read.time("credit");
  return read.result(queue);
}

Picoseconds passing_ps(std::uint64_t bytes, double bytes_per_second) {
  if (bytes_per_second <= 0) return 0;
  return static_cast<Picoseconds>(
      std::llround(static_cast<double>(bytes) / bytes_per_second * static_cast<double>(kPicosecondsPerSecond)));
}

Picoseconds slot_ps(const QueueModel& queue) { return queue.visibility_ps + queue.poll_ps + queue.claim_ps; }

Picoseconds message_ps(const QueueModel& queue, const Wire& wire, std::uint64_t bytes) {
  return queue.doorbell_ps + queue.post_ps + wire.latency_ps + passing_ps(bytes, wire.bytes_per_second) +
         queue.flag_ps + queue.poll_ps;
}

Picoseconds round_ps(const QueueModel& queue, const Wire& wire, std::uint64_t bytes) {
  return queue.publish_ps + slot_ps(queue) + message_ps(queue, wire, bytes) + queue.credit_ps;
}

double slots_per_second(const QueueModel& queue, const Wire& wire, std::uint64_t bytes, std::uint64_t depth) {
  const double second = static_cast<double>(kPicosecondsPerSecond);
  const auto round = static_cast<double>(round_ps(queue, wire, bytes));
  const double by_depth = round > 0 ? static_cast<double>(depth) * second / round : HUGE_VAL;
  const double by_producer = queue.publish_ps > 0 ? second / static_cast<double>(queue.publish_ps) : HUGE_VAL;
  return std::min(by_depth, by_producer);
}

}  // namespace meshbed::models
