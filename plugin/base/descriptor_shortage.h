#pragma once
// Whether this process can open anything more. Without a free descriptor interfaces and devices cannot be listed, and
// look as if there were none.

#include <fcntl.h>

#include <cerrno>

#include "plugin/base/descriptor.h"

namespace meshbed {

/// The errno of a process, or a system, without a free descriptor (EMFILE, ENFILE); 0: there is one.
inline int descriptor_shortage() {
  const Descriptor one(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  return one.is_open() || (errno != EMFILE && errno != ENFILE) ? 0 : errno;
}

}  // namespace meshbed
