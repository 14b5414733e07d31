#pragma once
// One end of a connection as the ncclNet table sees it, whatever it goes over: RDMA (connection.h) or TCP
// (tcp_connection.h). Used by one caller at a time.

#include <cstdint>

#include "plugin/base/result.h"
#include "plugin/net/object.h"

namespace meshbed::net {

struct Request;

class Endpoint : public Object {
 public:
  virtual ~Endpoint() = default;

  enum class Progress : std::uint8_t { kPending, kDone, kFailed };
  /// kDone: complete, `sizes` (may be nullptr) holds a size for each part, and the request is gone. kFailed: see
  /// failure(). (No Result: making one and taking it apart costs as much as a look at the completion queue.)
  virtual Progress test(Request& request, int* sizes) = 0;
  /// Why the connection failed; only where it did.
  virtual const Error& failure() const = 0;
  /// Ends what is under way. Then the object may be deleted.
  virtual void close() = 0;

 protected:
  explicit Endpoint(ObjectKind kind) : Object(kind) {}
};

}  // namespace meshbed::net
