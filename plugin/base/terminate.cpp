// What an exception that nobody catches says in a library that carries its own libstdc++. libstdc++'s handler of this
// name shows the exception's type demangled, and brings 54 KB of demangler into each library for it, which every
// simulated rank has in its copies; this one stands in its place when the library is linked, and shows the type's
// symbol as it is (c++filt(1) reads it with -t). Programs that use the system's libstdc++ keep the system's handler.

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
