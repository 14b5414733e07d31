#include "plugin/net/report/job_report.h"

#include <algorithm>
#include <utility>

#include "plugin/base/deadline.h"
#include "plugin/net/link/endpoint.h"
#include "plugin/net/report/report_text.h"

namespace meshbed::net {
namespace {

void replace_all(std::string& text, const std::string& what, const std::string& by) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size())) {
    text.replace(at, what.size(), by);
  }
}

}  // namespace

std::string report_path(const ReportName& name, unsigned number) {
  std::string path = name.name;
  if (path.front() != '/' && !name.folder.empty()) path = name.folder + "/" + path;
  const std::string process = std::to_string(name.pid) + (number > 1 ? "-" + std::to_string(number) : "");
  const bool has_process = path.find("%p") != std::string::npos;
  if (!has_process) {
    const std::size_t slash = path.rfind('/'), dot = path.rfind('.');
    const bool has_ending = dot != std::string::npos && (slash == std::string::npos || dot > slash + 1) && dot > 0;
    path.insert(has_ending ? dot : path.size(), ".%h-%p");
  }
  replace_all(path, "%h", name.host);
  replace_all(path, "%p", process);
  return path;
}

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
  const auto found = std::find_if(begun_.begin(), begun_.end(),
                                  [&](const Begun& one) { return one.endpoint == &endpoint; });
  if (found != begun_.end()) {
    account.begun_ns = found->at_ns;
    begun_.erase(found);
  }
  ended_.push_back(std::move(account));
}

Result<void> JobReport::write(const ProcessState& process) {
  const std::lock_guard lock(mutex_);
  std::vector<ReportAccount> accounts = ended_;
  const std::int64_t now = now_ns();
  for (const ConnectionState& open : process.connections) {
    accounts.push_back({.state = open, .begun_ns = opened_ns_, .ended_ns = now, .is_open = true});
  }
  return write_report_file(path_, report_text(process, accounts, now - opened_ns_));
}

}  // namespace meshbed::net
