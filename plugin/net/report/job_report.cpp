#include "plugin/net/report/job_report.h"

#include <algorithm>
#include <utility>

#include "plugin/base/deadline.h"
#include "plugin/net/link/endpoint.h"
#include "plugin/net/report/report_text.h"

namespace meshbed::net {
JobReport::JobReport(std::string path) : path_(std::move(path)), opened_ns_(now_ns()) {}

void JobReport::begin(const Endpoint& endpoint) {
  const std::lock_guard lock(mutex_);
  begun_.push_back({.endpoint = &endpoint, .at_ns = now_ns()});
}

void JobReport::end(Endpoint& endpoint) {
  ReportAccount account{.state = {}, .begun_ns = opened_ns_, .ended_ns = now_ns()};
  for (bool looked = false; !looked;) {
    {
      const Endpoint::Turn turn = endpoint.claim(Endpoint::kToLook);
      if (turn) account.state = endpoint.state(account.ended_ns);
      looked = static_cast<bool>(turn);
    }
    if (!looked) Endpoint::Turn::pass();
  }
  endpoint.release_claim(Endpoint::kToLook);
  const std::lock_guard lock(mutex_);
  const auto found =
      std::find_if(begun_.begin(), begun_.end(), [&](const Begun& one) { return one.endpoint == &endpoint; });
  if (found != begun_.end()) {
    account.begun_ns = found->at_ns;
    begun_.erase(found);
  }
  ended_.add(account);
}

Result<void> JobReport::write(const ProcessState& process) {
  const std::lock_guard lock(mutex_);
  ReportSums sums = ended_;
  const std::int64_t now = now_ns();
  for (const ConnectionState& open : process.connections) {
    sums.add({.state = open, .begun_ns = opened_ns_, .ended_ns = now, .is_open = true});
  }
  return write_report_file(path_, sums.text(process, now - opened_ns_));
}

}  // namespace meshbed::net
