// In the place of the tests that decode traces, where protobuf is missing.
#include <doctest/doctest.h>

TEST_CASE("traces in Perfetto's format are decoded with its schema") {
  MESSAGE("skipped: libprotobuf-dev or protobuf-compiler is not installed; install them and configure again");
}
