#pragma once
// Addresses in GIDs.

#include "plugin/base/address.h"
#include "plugin/verbs/gid.h"

namespace meshbed::net {

/// The GID of an address in RoCE v2: IPv4 is mapped, ::ffff:a.b.c.d.
inline verbs::Gid gid_of(const IpAddress& address) { return mapped_bytes(address); }
inline IpAddress address_of(const verbs::Gid& gid) { return from_mapped_bytes(gid); }

}  // namespace meshbed::net
