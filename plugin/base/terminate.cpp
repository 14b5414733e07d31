// The message of an uncaught exception in a library that contains its own libstdc++. libstdc++'s handler of this name
// demangles the exception's type, and adds 54 KB of demangler to each library, of which every simulated rank has a
// copy. This handler replaces it when the library is linked, and prints the type's symbol unchanged (c++filt(1) reads
// it with -t). Programs that use the system's libstdc++ keep the system's handler.

#include <cxxabi.h>

#include <atomic>
#include <cstdio>
#include <exception>
#include <typeinfo>

namespace __gnu_cxx {

/// Writes the type of the exception under way, and what() where there is one, to stderr. std::terminate calls it,
/// unless std::set_terminate named another, and aborts when it returns. [libstdc++ manual, "Verbose Terminate Handler";
/// libsupc++'s eh_terminate.cc]
void __verbose_terminate_handler() {
  static std::atomic_flag entered;
  if (entered.test_and_set()) return;  // what() itself threw
  const std::type_info* const type = __cxxabiv1::__cxa_current_exception_type();
  if (type == nullptr) {
    std::fputs("terminate called without an active exception\n", stderr);
    return;
  }
  std::fprintf(stderr, "terminate called after throwing an instance of '%s'\n", type->name());
  try {
    throw;  // of any other type: out of here, which ends the process as well
  } catch (const std::exception& error) {
    std::fprintf(stderr, "  what():  %s\n", error.what());
  }
}

}  // namespace __gnu_cxx
