# shellcheck shell=bash disable=SC2154  # root, build, jobs and the package lists are the launcher's
# The test command of the launcher; sourced by ./meshbed, whose functions it uses.
#
#   ./meshbed test --quick    every room's tests with the ordinary build
#   ./meshbed test            the same, and: the emulated world joined with the simulated one, another compiler at another
#                             level (same digest), Valgrind over the simulations,
#                             AddressSanitizer and UBSan over the rooms that read foreign bytes, ThreadSanitizer over the
#                             engine's and the plugin's threads, clang-format, clang-tidy
#
# One line for each suite, then what each failed assertion said; the last line of standard output is "N passed, N failed,
# N skipped", in doctest test cases.

passed=0 failed=0 skipped=0
failures=  # what each failed assertion says, to be said once more at the end

# Reads ctest's log: each failed assertion of doctest's, its test case first, so far as it fits a few lines.
read_failures() {
  awk -v suite="$2" '
    /^[0-9]+\/[0-9]+ Testing: / { name = suite $3; lines = 0 }
    /^TEST CASE:/ { test_case = $0; sub(/^TEST CASE: */, "", test_case) }
    /: (FATAL )?ERROR: |^Test timeout|SIG[A-Z]+ - / { print name ": " test_case; lines = 6 }
    /^\[doctest\]|^=====/ { lines = 0 }
    lines > 0 { --lines; if ($0 != "") print "  " substr($0, 1, 400) }
  ' "$1"
}

# Reads ctest's log: "NAME PASSED FAILED SKIPPED" for each suite, then its skips as "- NAME: reason". A suite that ended
# without doctest's summary, or badly in spite of it, has failed.
read_ctest_log() {
  awk '
    function flush_suite() {
      if (name == "") return
      if (!summary) { good = 0; bad = bad > 0 ? bad : 1 }
      if (summary && bad == 0 && broken) bad = 1
      print name, good - skips, bad, skips
      for (i = 0; i < skips; ++i) print "- " name ": " reason[i]
      name = ""
    }
    /^[0-9]+\/[0-9]+ Testing: / { flush_suite(); name = $3; good = bad = skips = summary = broken = 0 }
    /^TEST CASE:/ { test_case = $0; sub(/^TEST CASE: */, "", test_case) }
    /(MESSAGE|logged): skipped: / { text = $0; sub(/.*skipped: /, "", text); reason[skips++] = test_case ": " text }
    /^\[doctest\] test cases:/ { gsub(/\|/, " "); good = $5; bad = $7; summary = 1 }
    /^Test Failed\.$|^Test timeout/ { broken = 1 }
    END { flush_suite() }
  ' "$1"
}

# run_suites FOLDER PREFIX SUITE_PATTERN [CONFIGURATION]: runs them with ctest and adds up what they say.
run_suites() {
  local folder=$1 prefix=$2 pattern=$3 configuration=${4:-} name good bad skips
  local log=$folder/Testing/Temporary/LastTest.log
  rm -f "$log"
  ctest --test-dir "$folder" -C "$configuration" -j "$jobs" -R "$pattern" --timeout 1500 >"$folder/ctest.out" 2>&1 || true
  # No test is no success.
  grep -q '^[0-9]*/[0-9]* Testing: ' "$log" 2>/dev/null || { cat "$folder/ctest.out" >&2; die "ctest ran nothing"; }
  while read -r name good bad skips; do
    if [[ $name == - ]]; then
      printf '  skipped  %s\n' "$good $bad $skips"
      continue
    fi
    count "$prefix$name" "$good" "$bad" "$skips"
  done < <(read_ctest_log "$log")
  # What failed is shown in full.
  grep -q 'Failed  \|\*\*\*' "$folder/ctest.out" && cat "$log" >&2
  failures+=$(read_failures "$log" "$prefix" && printf .)
  failures=${failures%.}
  return 0
}

count() {
  printf '%-24s %4d passed, %d failed, %d skipped\n' "$1" "$2" "$3" "$4"
  ((passed += $2, failed += $3, skipped += $4)) || true
}

# check LABEL COMMAND...: one more test case, outside doctest.
check() {
  local label=$1 log
  shift
  log=$(mktemp)
  if "$@" >"$log" 2>&1; then
    count "$label" 1 0 0
  else
    cat "$log" >&2
    count "$label" 0 1 0
  fi
  rm -f "$log"
}

project_files() { (cd "$root" && git ls-files -- "$@" | grep -v '^tests/golden/'); }

format_is_clean() {
  (cd "$root" && project_files '*.cpp' '*.h' | xargs clang-format --dry-run --Werror)
}

tidy_is_clean() {
  # One process a file: clang-tidy works through compile_commands.json, which knows the flags; clang's own, since it
  # cannot read what g++ precompiled.
  (cd "$root" && project_files '*.cpp' | grep -v '^tests/' |
     xargs -P "$jobs" -n 4 clang-tidy --quiet -p "$other" --warnings-as-errors='*')
}

test_usage() {
  cat <<'END'
usage: ./meshbed test [--quick]

Builds and runs the tests; the last line is "N passed, N failed, N skipped".

options:
  --quick      every room's tests with the ordinary build only
  -h, --help   print this text

Without --quick also: another compiler and level (same digest), Valgrind, sanitizers, clang-format, clang-tidy.
END
}

run_tests() {
  local quick=0
  case "${1:-}" in
    '') ;;
    --quick) quick=1 ;;
    *) die "test: there is no option '$1'; usage: ./meshbed test [--quick]" ;;
  esac
  ((quick)) || require .meshbed-test-packages "${build_packages[@]}" "${test_packages[@]}" "${emu_packages[@]}"

  build "$build"
  if ((quick)); then
    run_suites "$build" "" '.*'
  else
    run_whole_test
  fi
  [[ -z $failures ]] || printf 'failed:\n%s' "$failures"
  printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
  ((failed == 0))
}

# build_sanitized ASAN TSAN
build_sanitized() {
  renice -n 19 "$BASHPID" >/dev/null
  # The rooms that read bytes from elsewhere: scenario files, recordings, handles, handshakes.
  build "$1" cli_tests net_tests base_tests models_tests trace_tests
  build "$2" coll_tests local_tests threads_tests
}

run_whole_test() {
  local other=$build-other asan=$build-asan tsan=$build-tsan
  # The other compiler at the other level; and without precompiled headers, so that each file includes what it uses.
  configure "$other" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ \
    -DMESHBED_PRECOMPILE=OFF -DMESHBED_TESTS=OFF -DMESHBED_BENCHMARKS=OFF
  configure "$asan" -DMESHBED_SANITIZE=address,undefined -DMESHBED_BENCHMARKS=OFF
  configure "$tsan" -DMESHBED_SANITIZE=thread -DMESHBED_BENCHMARKS=OFF
  build "$other" bin/meshbed
  # What the sanitizers need is built beside the suites, in the time that they leave: virtual machines wait a lot.
  build_sanitized "$asan" "$tsan" &
  local sanitized=$!
  MESHBED_TEST_FULL=1 MESHBED_OTHER_BUILDS=$other run_suites "$build" "" '.*'

  run_suites "$build" "" '^memcheck/' Memcheck

  wait "$sanitized" || exit 2
  # Whole simulations ran under Valgrind above.
  ASAN_OPTIONS=detect_leaks=0 run_suites "$asan" "asan/" '^(cli|base|models|net|trace)$'

  # The engine's own threads, and the plugin's, as they run outside the simulator.
  run_suites "$tsan" "tsan/" '^(coll|local|threads)$'

  check "format" format_is_clean
  check "clang-tidy" tidy_is_clean
}
