#include "plugin/coll/store/id_listeners.h"

#include <utility>

#include "plugin/coll/store/environment.h"
#include "plugin/coll/store/job_key.h"

namespace meshbed::coll {

Result<std::string> IdListeners::open() {
  const auto address = management_address();
  if (!address) return address.error();
  auto listener = listen_at(*address);
  if (!listener) return listener.error();
  const auto bound = own_address(*listener);
  if (!bound) return bound.error();
  const auto key = JobKey::draw();
  if (!key) return key.error();
  const std::string id = to_text(MeetingPlace{.address = *bound, .key = *key});
  const std::lock_guard<std::mutex> lock(mutex_);
  listeners_.insert_or_assign(id, std::move(*listener));
  return id;
}

Socket IdListeners::take(const std::string& id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = listeners_.find(id);
  if (found == listeners_.end()) return {};
  Socket listener = std::move(found->second);
  listeners_.erase(found);
  return listener;
}

}  // namespace meshbed::coll
