#include "plugin/base/thread_text.h"

#include <new>
#include <string>

namespace meshbed {
namespace {

void destroy(void* text) { delete static_cast<std::string*>(text); }

}  // namespace

ThreadText::ThreadText() : works_(pthread_key_create(&key_, &destroy) == 0) {}

const char* ThreadText::keep(std::string_view text) {
  constexpr const char* kNoMemory = "there is no memory for the words of this error";
  if (!works_) return kNoMemory;
  try {
    auto* own = static_cast<std::string*>(pthread_getspecific(key_));
    if (own == nullptr) {
      own = new std::string;
      if (pthread_setspecific(key_, own) != 0) {
        delete own;
        return kNoMemory;
      }
    }
    *own = text;
    return own->c_str();
  } catch (const std::bad_alloc&) {
    return kNoMemory;
  }
}

}  // namespace meshbed
