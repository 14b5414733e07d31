# shellcheck shell=bash disable=SC2154,SC2034  # root, build, jobs and the package lists are the launcher's
# The test command of the launcher; sourced by ./meshbed, whose functions it uses. ./meshbed test --help lists the options.
#
# It prints one line for each suite, then the slowest test cases, the time of each stage, and the text of each failed
# assertion. The last line of standard output is "N passed, N failed, N skipped", in doctest test cases and checks of the text.
#
# Variables that it sets for the tests: MESHBED_TEST_EMU, the part of the emulated world to run (unset: nothing, short,
# full); MESHBED_TEST_WALKS: full - slow walks run all cases instead of a seeded sample, ends - only the first and the last
# case; MESHBED_OTHER_BUILDS, folders with builds by another compiler, for the digests.
#
# Variable that it reads: MESHBED_FUZZ_SECONDS, the run time of each fuzzer of the stage fuzz (20).

# Stages in the order in which they run; `walks` and `ordinary` together are one run of the suites.
all_stages=(ordinary walks emu other-compiler asan tsan memcheck clang-tidy fuzz page)

# The rooms of each stage that does not take all of them.
emu_rooms=(emu worlds contract)
asan_rooms=(base models net cli trace cuda)  # those that read bytes from elsewhere: files, handshakes, programs' images
tsan_rooms=(coll local ring threads cuda)  # threads of the engine, the plugin and programs, outside the simulator
memcheck_rooms=(net verbs host engine coll trace)

# Time limits of a suite or a part of it: ordinary, and for full walks, in virtual machines or under Valgrind. Six times
# the time that they take alone on two cores, because the machine may be busy.
ordinary_s=1200 slow_s=5400

# Packages that a stage needs in addition to those of the build. Open MPI and an ssh server that installs no service start
# ranks; perftest is tested as an unchanged program.
stage_packages() {
  case $1 in
    ordinary) printf '%s\n' clang-format "${emu_packages[@]}" "${python_packages[@]}" ;;
    walks) printf '%s\n' valgrind ;;  # the cost of a message is counted
    emu) printf '%s\n' "${emu_packages[@]}" openmpi-bin dropbear-bin perftest ;;
    other-compiler) printf '%s\n' clang ;;
    memcheck) printf '%s\n' valgrind ;;
    clang-tidy) printf '%s\n' clang clang-tidy "${python_packages[@]}" ;;
    fuzz) printf '%s\n' clang ;;
  esac
}

# The options of the command line.
stages=() rooms=() quick=0
chosen=()  # rooms_of's answer

passed=0 failed=0 skipped=0
failures=    # texts of failed assertions, repeated at the end
kept_outputs=  # files with the whole output of failed tests and checks
case_times=  # lines "SECONDS SUITE: TEST CASE"
stage_times=

# awk functions to read ctest's logs. tests/support/main.cpp writes "[begins] TEST CASE" and "[ends] SECONDS s, passed: TEST
# CASE" (or failed) around each; a suite goes in several tests, NAME/1, NAME/2, ..., that are one here.
log_words='
  function read_case(line) { test_case = line; sub(/^\[begins\] |^TEST CASE: */, "", test_case) }
  function begins_test(line) { return line ~ /^[0-9]+\/[0-9]+ Testing: / }
  function suite_of(test) { sub(/\/[0-9]+$/, "", test); return test }
'

# Reads ctest's log: each failed assertion of doctest, with its test case first, cut to a few lines; for a test that
# ended without doctest's summary, the test case that was running.
read_failures() {
  awk -v prefix="$2" "$log_words"'
    function flush_test() {
      if (name == "" || summary) return
      print name ": " (running != "" ? running : "no test case was running")
      print "  cut off here" (after != "" ? ", " after " s after the test began" : "")
    }
    begins_test($0) { flush_test(); name = prefix suite_of($3); lines = summary = 0; running = after = test_case = "" }
    /^\[begins\] / { read_case($0); running = test_case; lines = 0; next }
    /^\[ends\] / { running = ""; lines = 0; next }
    /^TEST CASE:/ { read_case($0) }
    /^\[doctest\] test cases:/ { summary = 1 }
    /^Test time = / { after = $4 }
    /: (FATAL )?ERROR: |SIG[A-Z]+ - / { print name ": " test_case; lines = 6 }
    /^\[doctest\]|^=====/ { lines = 0 }
    lines > 0 { --lines; if ($0 != "") print "  " substr($0, 1, 400) }
    END { flush_test() }
  ' "$1"
}

# Reads ctest's log: "NAME PASSED FAILED SKIPPED" for each suite, then its skips as "- NAME: reason". A test that ended
# without doctest's summary, or with a failure status in spite of it, has failed.
read_ctest_log() {
  awk "$log_words"'
    function flush_test(  suite, i) {
      if (name == "") return
      if (!summary) { good = ended; bad = bad_ended + 1 }
      if (summary && bad == 0 && broken) bad = 1
      suite = suite_of(name)
      if (!(suite in all_good)) order[++suites] = suite
      all_good[suite] += good > skips ? good - skips : 0; all_bad[suite] += bad; all_skips[suite] += skips
      for (i = 0; i < skips; ++i) reasons[suite] = reasons[suite] "- " suite ": " reason[i] "\n"
      name = ""
    }
    begins_test($0) { flush_test(); name = $3; good = bad = skips = summary = broken = ended = bad_ended = 0 }
    /^TEST CASE:|^\[begins\] / { read_case($0) }
    /^\[ends\] .* s, passed: / { ++ended }
    /^\[ends\] .* s, failed: / { ++bad_ended }
    /(MESSAGE|logged): skipped: / { text = $0; sub(/.*skipped: /, "", text); reason[skips++] = test_case ": " text }
    /^\[doctest\] test cases:/ { gsub(/\|/, " "); good = $5; bad = $7; summary = 1 }
    /^Test Failed\.$|^Test timeout/ { broken = 1 }
    END {
      flush_test()
      for (i = 1; i <= suites; ++i) {
        print order[i], all_good[order[i]], all_bad[order[i]], all_skips[order[i]]
        printf "%s", reasons[order[i]]
      }
    }
  ' "$1"
}

# Reads ctest's log: "SECONDS SUITE: TEST CASE" for each test case.
read_case_times() {
  awk -v prefix="$2" "$log_words"'
    begins_test($0) { name = prefix suite_of($3) }
    /^\[ends\] / { seconds = $2; sub(/^\[ends\] [^:]*: /, ""); print seconds, name ": " $0 }
  ' "$1"
}

# Reads ctest's log: the whole output of tests that did not pass.
read_failed_tests() {
  awk "$log_words"'
    function flush_test() { if (text != "" && !good) printf "%s", text; text = ""; good = 0 }
    begins_test($0) { flush_test(); begun = 1 }
    /^Test Passed\.$/ { good = 1 }
    begun && !/^\[ends\] / { text = text $0 "\n" }
    END { flush_test() }
  ' "$1"
}

# pattern_of ROOM...: ctest's tests of these rooms, whole or in parts.
pattern_of() {
  local IFS='|'
  printf '^(%s)(/[0-9]+)?$' "$*"
}

# run_suites FOLDER PREFIX SUITE_PATTERN SECONDS [CTEST_OPTION...]: runs them with ctest and adds up their results. A test
# is ended after SECONDS.
run_suites() {
  local folder=$1 prefix=$2 pattern=$3 seconds=$4 name good bad skips
  local log=$folder/Testing/Temporary/LastTest.log
  shift 4
  rm -f "$log"
  # One more than the number of cores, because some tests wait for a peer that never comes.
  ctest --test-dir "$folder" -j "$((jobs + 1))" -R "$pattern" --timeout "$seconds" "$@" 2>&1 </dev/null |
    tee "$folder/ctest.out" | follow tests /dev/null || true
  # No test at all is a failure.
  grep -q '^[0-9]*/[0-9]* Testing: ' "$log" 2>/dev/null || { cat "$folder/ctest.out" >&2; die "ctest ran nothing"; }
  while read -r name good bad skips; do
    if [[ $name == - ]]; then
      printf '  skipped  %s\n' "$good $bad $skips"
      continue
    fi
    count "$prefix$name" "$good" "$bad" "$skips"
  done < <(read_ctest_log "$log")
  keep_output "$folder" "${prefix}suites" "$(read_failed_tests "$log")"
  failures+=$(read_failures "$log" "$prefix" && printf .)
  failures=${failures%.}
  case_times+=$(read_case_times "$log" "$prefix")$'\n'
}

# keep_output FOLDER NAME TEXT: prints what failed tests printed, and keeps it in a file until the next such run.
keep_output() {
  local file=$1/failed/${2//\//-}.txt
  rm -f "$file"
  [[ -n $3 ]] || return 0
  printf '%s\n' "$3" >&2
  mkdir -p "${file%/*}"
  printf '%s\n' "$3" >"$file"
  kept_outputs+="  $file"$'\n'
}

count() {
  printf '%-28s %4d passed, %d failed, %d skipped\n' "$1" "$2" "$3" "$4"
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
    keep_output "$build" "$label" "$(<"$log")"
    count "$label" 0 1 0
    failures+="$label: $(grep -m 1 'error:\|warning:\|ERROR: ' "$log" | cut -c 1-400 || true)"$'\n'
  fi
  rm -f "$log"
}

project_files() { (cd "$root" && git ls-files -- "$@" | grep -v '^tests/golden/'); }

format_is_clean() {
  (cd "$root" && project_files '*.cpp' '*.h' | xargs clang-format --dry-run --Werror)
}

# All sources of the product. clang reads the headers of each room once, and all of its files behind them: a ninth of the
# time that it takes for file after file.
tidy_is_clean() {
  local database=$tidy/compile_commands.json units unseen
  units=$(sed -n 's/^ *"file": "\(.*\)",\?$/\1/p' "$database" | grep -v -e '/generated/' -e "^$root/tests/" | sort -u)
  unseen=$(project_files '*.cpp' | grep -v '^tests/' | awk -v root="$root/" -v units="$units" '
    BEGIN {
      count = split(units, unit, "\n")
      for (i = 1; i <= count; ++i) {
        seen[unit[i]] = 1
        if (unit[i] !~ /\/Unity\//) continue
        while ((getline line < unit[i]) > 0) if (split(line, part, "\"") > 2 && line ~ /^#include/) seen[part[2]] = 1
        close(unit[i])
      }
    }
    !((root $0) in seen)')
  if [[ -n $unseen ]]; then
    printf 'error: no target that clang-tidy reads has these: %s\n' "${unseen//$'\n'/ }"
    return 1
  fi
  xargs -P "$jobs" -n 1 clang-tidy --quiet --config-file="$root/.clang-tidy" -p "$tidy" --warnings-as-errors='*' <<<"$units"
}

# The values of --room: the folders with tests, and `house` for the tests beside them.
all_rooms() {
  local file
  for file in "$root"/tests/*/*_test.cpp; do
    file=${file%/*}
    printf '%s\n' "${file##*/}"
  done | uniq
  echo house
}

# among WORD WORD...: whether the first is one of the others.
among() {
  local word=$1 other_word
  shift
  for other_word in "$@"; do
    [[ $word != "$other_word" ]] || return 0
  done
  return 1
}

test_usage() {
  cat <<'END'
usage: ./meshbed test [options]

Builds and runs the tests: every room's suite, a short part of the emulated world, and the format of the sources. The last
line is "N passed, N failed, N skipped".

options:
  --full         that, and all the stages below
  --stage NAME   this stage alone; may be repeated
  --room NAME    this room's suite alone, as net, coll, house; may be repeated, and go with --stage
  --quick        the suites alone: nothing of the emulated world, no format, no package beyond those of the build
  -h, --help     print this text

stages:
  ordinary        what runs without an option
  walks           every suite, its slow walks whole instead of a sample
  emu             the suites of the emulated world whole, in virtual machines
  other-compiler  clang, another level, each file for itself; the digests are the same
  asan            AddressSanitizer and UBSan over the rooms that read foreign bytes
  tsan            ThreadSanitizer over the engine's and the plugin's threads
  memcheck        Valgrind over the simulations
  clang-tidy      its rules, over each source of the product
  fuzz            each fuzzer of tests/fuzz for MESHBED_FUZZ_SECONDS (20), from real inputs on
  page            the pages of `meshbed report` in Chromium, and their script as npm bundles it
END
}

# read_test_options ARGUMENT...: fills stages, in the order that they run in, rooms and quick.
read_test_options() {
  local value stage
  local -a known_rooms wanted=()
  while (($#)); do
    case $1 in
      --quick) quick=1 ;;
      --help | -h)
        test_usage
        exit
        ;;
      --full) stages=("${all_stages[@]}") ;;
      --stage=* | --room=*) set -- "${1%%=*}" "${1#*=}" "${@:2}"; continue ;;
      --stage | --room)
        (($# > 1)) || die "test: $1 needs a name; ./meshbed test --help lists them"
        value=$2
        if [[ $1 == --stage ]]; then
          among "$value" "${all_stages[@]}" || die "test: there is no stage '$value'; stages are: ${all_stages[*]}"
          stages+=("$value")
        else
          mapfile -t known_rooms < <(all_rooms)
          among "$value" "${known_rooms[@]}" || die "test: there is no room '$value'; rooms are: ${known_rooms[*]}"
          rooms+=("$value")
        fi
        shift
        ;;
      *) die "test: there is no option '$1'; ./meshbed test --help lists them" ;;
    esac
    shift
  done
  if ((quick && ${#stages[@]})); then die "test: --quick runs only the ordinary suites; it cannot be combined with a stage"; fi
  ((${#stages[@]})) || stages=(ordinary)
  for stage in "${all_stages[@]}"; do
    rooms_of "$stage"
    # A stage may have none of the requested rooms; these stages have no rooms at all.
    if has_stage "$stage" && { ((${#chosen[@]})) || among "$stage" clang-tidy fuzz page; }; then wanted+=("$stage"); fi
  done
  ((${#wanted[@]})) || die "test: no stage of ${stages[*]} has a suite of ${rooms[*]}"
  stages=("${wanted[@]}")
}

# rooms_of STAGE: sets `chosen` to the requested rooms of the stage, or to all of its rooms.
rooms_of() {
  local room
  local -a own=()
  case $1 in
    emu) own=("${emu_rooms[@]}") ;;
    asan) own=("${asan_rooms[@]}") ;;
    tsan) own=("${tsan_rooms[@]}") ;;
    memcheck) own=("${memcheck_rooms[@]}") ;;
    other-compiler) own=(determinism) ;;
    ordinary | walks) mapfile -t own < <(all_rooms) ;;
    clang-tidy | fuzz | page) ;;
  esac
  chosen=()
  for room in "${own[@]}"; do
    # Suites that the stage emu runs as a whole need not run in part.
    if [[ $1 == ordinary || $1 == walks ]] && has_stage emu && among "$room" "${emu_rooms[@]}"; then continue; fi
    if ((${#rooms[@]} == 0)) || among "$room" "${rooms[@]}"; then chosen+=("$room"); fi
  done
}

has_stage() { among "$1" "${stages[@]}"; }

# The targets of a stage's suites: the rooms' test programs and the product; everything if all rooms run.
suite_targets() {
  ((${#rooms[@]})) || { printf 'all\nworlds\ncost_programs\n'; return; }
  printf '%s_tests\n' "${chosen[@]}"
  # These start the built program.
  if among house "${chosen[@]}"; then printf 'worlds\ncost_programs\n'; fi
  local room
  for room in worlds determinism cli telemetry conformance; do
    if among "$room" "${chosen[@]}"; then echo worlds; fi
  done
}

# build_for STAGE: builds its programs, in a separate folder if it uses other options.
build_for() {
  local -a wanted
  rooms_of "$1"
  case $1 in
    ordinary | walks)
      mapfile -t wanted < <(suite_targets)
      build "$build" "${wanted[@]}"
      ;;
    emu) build "$build" "${chosen[@]/%/_tests}" worlds ;;
    other-compiler)
      configure "$clang" clang
      build "$clang" worlds
      build "$build" determinism_tests worlds
      ;;
    memcheck) build "$build" "${chosen[@]/%/_tests}" ;;
    asan)
      configure "$asan" asan
      build "$asan" "${chosen[@]/%/_tests}"
      ;;
    tsan)
      configure "$tsan" tsan
      build "$tsan" "${chosen[@]/%/_tests}"
      ;;
    clang-tidy)
      configure "$tidy" clang-tidy -DMESHBED_PYTHON=ON  # it reads the module's source too
      ninja -C "$tidy" build.ninja >/dev/null  # sources that came since
      ;;
    page) build "$build" worlds bin/meshbed-tools bin/meshbed-run cuda_libraries ;;
    fuzz)
      configure "$fuzz" fuzz
      mapfile -t wanted < <(all_fuzzers)
      build "$fuzz" "${wanted[@]/%/_fuzz}"
      ;;
  esac
}

# The fuzzers by name: `ring` is tests/fuzz/ring_fuzz.cpp, with its seeds in seeds/ring and its words in ring.dict.
all_fuzzers() {
  local file
  for file in "$root"/tests/fuzz/*_fuzz.cpp; do
    if [[ -f $file ]]; then basename "$file" _fuzz.cpp; fi
  done
}

# run_fuzzer NAME: continues from its previous corpus, which is kept in the build folder, as is an input that fails.
run_fuzzer() {
  local corpus=$fuzz/corpus/$1 dictionary=$root/tests/fuzz/$1.dict folder
  local -a folders=("$corpus") options=()
  mkdir -p "$corpus"
  case $1 in
    cuda_ptx) folders+=("$root/tests/cuda/ptx") ;;
    scenario) folders+=("$root/scenarios") ;;
    *)
      folder=$root/tests/fuzz/seeds/$1
      if [[ -d $folder ]]; then folders+=("$folder"); fi
      ;;
  esac
  if [[ -f $dictionary ]]; then options+=("-dict=$dictionary"); fi
  "$fuzz/bin/$1_fuzz" "-max_total_time=${MESHBED_FUZZ_SECONDS:-20}" -timeout=25 -rss_limit_mb=2048 -verbosity=0 \
    -print_final_stats=1 "-artifact_prefix=$fuzz/$1-" "${options[@]}" "${folders[@]}"
}

# Each fuzzer is one thread: as many at a time as there are processors. NAME.log and NAME.status in the build folder.
run_fuzzers() {
  local name status
  for name in "$@"; do
    while (($(jobs -pr | wc -l) >= jobs)); do wait -n; done
    {
      status=0
      run_fuzzer "$name" >"$fuzz/$name.log" 2>&1 || status=$?
      echo "$status" >"$fuzz/$name.status"
    } &
  done
  wait
}

fuzzer_found_nothing() {
  cat "$fuzz/$1.log"
  return "$(cat "$fuzz/$1.status")"
}

# run_stage STAGE
run_stage() {
  local emu_part='' walks='' pattern name limit_s=$ordinary_s
  local -a but=() fuzzers=()
  rooms_of "$1"
  pattern=$(pattern_of "${chosen[@]}")
  if has_stage walks; then walks=full limit_s=$slow_s; fi
  case $1 in
    ordinary | walks)
      if has_stage emu; then
        emu_part=full
        but=(-E "$(pattern_of "${emu_rooms[@]}")")
      elif has_stage ordinary && ((!quick)); then
        emu_part=short
      fi
      ((${#rooms[@]})) || pattern='.*'  # all tests
      with_parts "$emu_part" "$walks" run_suites "$build" "" "$pattern" "$limit_s" "${but[@]}"
      # The format check reads all sources, not those of some rooms.
      if has_stage ordinary && ((!quick && ${#rooms[@]} == 0)); then check format format_is_clean; fi
      ;;
    emu) with_parts full "$walks" run_suites "$build" "" "$pattern" "$slow_s" ;;
    other-compiler) MESHBED_OTHER_BUILDS=$clang run_suites "$build" other-compiler/ "$pattern" "$ordinary_s" ;;
    # Whole simulations run under Valgrind.
    asan) ASAN_OPTIONS=detect_leaks=0 run_suites "$asan" asan/ "$pattern" "$ordinary_s" ;;
    tsan) run_suites "$tsan" tsan/ "$pattern" "$ordinary_s" ;;
    memcheck) with_parts '' ends run_suites "$build" "" "^memcheck/${pattern#^}" "$slow_s" -C Memcheck ;;
    clang-tidy) check clang-tidy tidy_is_clean ;;
    page)
      # shellcheck source=tests/page/stage.sh
      source "$root/tests/page/stage.sh"
      run_page_stage
      ;;
    fuzz)
      mapfile -t fuzzers < <(all_fuzzers)
      run_fuzzers "${fuzzers[@]}"
      for name in "${fuzzers[@]}"; do check "fuzz/$name" fuzzer_found_nothing "$name"; done
      ;;
  esac
}

# with_parts EMU WALKS COMMAND...: runs the command with these variables for the tests; empty: not set.
with_parts() {
  local -x MESHBED_TEST_EMU=$1 MESHBED_TEST_WALKS=$2
  [[ -n $1 ]] || unset MESHBED_TEST_EMU
  [[ -n $2 ]] || unset MESHBED_TEST_WALKS
  shift 2
  "$@"
}

# Builds the separate folders of the later stages, at low priority.
build_later() {
  local stage progress=off  # read by the launcher's functions
  renice -n 19 "$BASHPID" >/dev/null
  for stage in "$@"; do
    case $stage in
      asan | tsan | fuzz) build_for "$stage" ;;
      other-compiler) configure "$clang" clang && build "$clang" worlds ;;
    esac
  done
}

test_packages() {
  local stage room
  for stage in "$@"; do
    if [[ $stage != ordinary ]]; then
      stage_packages "$stage"
    elif ((!quick && ${#rooms[@]} == 0)); then
      stage_packages ordinary
    elif ((!quick)); then
      for room in house "${emu_rooms[@]}"; do
        if among "$room" "${rooms[@]}"; then printf '%s\n' "${emu_packages[@]}"; fi
      done
    fi
  done | awk '!seen[$0]++'
}

run_tests() {
  local stage name begun beside=''
  local -a packages=()
  # A folder for each preset of CMakePresets.json but the ordinary one.
  local clang=$build-clang asan=$build-asan tsan=$build-tsan fuzz=$build-fuzz tidy=$build-clang-tidy
  unset MESHBED_TEST_EMU MESHBED_TEST_WALKS  # the options say how much is run, not what the caller happens to have
  mapfile -t packages < <(test_packages "${stages[@]}")
  if ((${#packages[@]})); then require .meshbed-test-packages "${build_packages[@]}" "${packages[@]}"; fi
  configure_main  # what they add: the Python module

  for stage in "${stages[@]}"; do
    name=$stage
    if has_stage ordinary && has_stage walks; then
      [[ $stage != walks ]] || continue
      [[ $stage != ordinary ]] || name="ordinary, walks"
    fi
    begun=$SECONDS
    if [[ -n $beside ]]; then
      wait "$beside" || exit 2
      beside=
    fi
    build_for "$stage"
    # Virtual machines are often idle: build for the later stages meanwhile.
    if [[ $stage == emu ]]; then
      build_later "${stages[@]}" &
      beside=$!
    fi
    run_stage "$stage"
    stage_times+=$(printf '%-24s %s' "$name" "$(duration "$((SECONDS - begun))")")$'\n'
    ((${#stages[@]} == 1)) || say "stage $name: $(duration "$((SECONDS - begun))")"
  done
  [[ -z $beside ]] || wait "$beside" || exit 2
  report_tests
}

report_tests() {
  local seconds name
  printf 'the slowest test cases:\n'
  # awk reads to the end. head would close the pipe early: sort would then fail and end this script.
  sort -rn <<<"$case_times" | awk 'NR <= 10' | while read -r seconds name; do
    [[ -z $seconds ]] || printf '%8.1f s  %s\n' "$seconds" "$name"
  done
  printf 'stages:\n%s' "$stage_times" | sed '2,$s/^/  /'
  [[ -z $failures ]] || printf 'failed:\n%s' "$failures"
  [[ -z $kept_outputs ]] || printf 'their whole output:\n%s' "$kept_outputs"
  printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
  ((failed == 0 && passed > 0))
}
