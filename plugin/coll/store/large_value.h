#pragma once
// Values of any size in a store, whose frames have kFrameBodyBytesMax: in pieces, the first of which contains their
// number.

#include <string>

#include "plugin/base/deadline.h"
#include "plugin/base/result.h"
#include "plugin/coll/store/store_client.h"

namespace meshbed::coll {

Result<void> set_large(StoreClient& store, const std::string& key, const std::string& value);
/// As StoreClient::get(). kRemote: the value there is not of this kind.
Result<std::string> get_large(StoreClient& store, const std::string& key, Deadline deadline,
                              const StoreClient::WaitLimits& limits);

}  // namespace meshbed::coll
