#pragma once
// StoreIntroduction: how a client of the store becomes a rank. Without a job key its hello is enough; with one it
// proves that it knows the key first (frame.h). It runs inside the accept queue, which bounds how many clients are at
// this stage.

#include <optional>
#include <string>

#include "plugin/base/accept_queue.h"
#include "plugin/coll/store/frame.h"
#include "plugin/coll/store/job_key.h"

namespace meshbed::coll {

class StoreIntroduction : public Introduction {
 public:
  explicit StoreIntroduction(const std::optional<JobKey>& key) : key_(key) {}
  Result<bool> advance(int descriptor) override;
  bool untouched() const override { return untouched_; }

  const Identity& identity() const { return identity_; }
  /// Rank 0's own proof; empty without a key.
  const std::string& welcome() const { return welcome_; }
  /// Bytes that arrived after the introduction.
  std::string take_rest() { return std::move(received_); }

 private:
  Result<bool> handle(int descriptor, const Frame& frame);
  Result<bool> challenge(int descriptor, const Frame& frame);
  Result<bool> check_hello(int descriptor, const Frame& frame);
  Error refuse(int descriptor, const std::string& why) const;

  const std::optional<JobKey>& key_;  // the server's
  std::string received_, rank_nonce_, server_nonce_, welcome_;
  Identity identity_;
  bool untouched_ = true;
};

}  // namespace meshbed::coll
