# shellcheck shell=bash disable=SC2154  # root and build are the launcher's
# The stage `page` of ./meshbed test: the script and style sheet of `meshbed report` as npm bundles them, byte for byte,
# and pages in headless Chromium. Sourced by tests/run_tests.sh.

# page_lacks: why the stage cannot run here; empty: it can.
page_lacks() {
  if ! npm --version >/dev/null 2>&1 || ! node --version >/dev/null 2>&1; then
    echo "npm or node does not run here"
  elif ! page_browser >/dev/null; then
    echo "chromium is not installed"
  fi
}

page_browser() { command -v chromium || command -v chromium-browser || command -v google-chrome; }

# In a folder of their own, for the packages lie where the sources are.
page_packages() {
  local folder=$build/page
  rm -rf "$folder"
  mkdir -p "$folder/shots"
  cp -r "$root"/testbed/page/{package.json,package-lock.json,assets} "$root/tests/page/browser.mjs" "$folder"
  (cd "$folder" && npm ci --ignore-scripts --no-audit --no-fund)
}

page_bundle_is_kept() {
  local name
  (cd "$build/page" && npm run --silent bundle) || return
  for name in report.js report.css; do
    cmp "$build/page/bundle/$name" "$root/testbed/page/bundle/$name" || {
      echo "error: testbed/page/bundle/$name is not what its sources make: cd testbed/page && npm ci && npm run bundle"
      return 1
    }
    # One string literal each (testbed/page/embed_bundle.cmake).
    (($(stat -c %s "$build/page/bundle/$name") < 65536)) || { echo "error: $name has 64 KiB or more"; return 1; }
  done
}

# page_of NAME RESULTS...
page_of() { "$build/bin/meshbed" report "${@:2}" -o "$build/page/$1.html"; }

# A run, one that loses a cable, a megakernel, a program that calls NCCL, and a sweep of 200 points.
page_files() {
  local meshbed=$build/bin/meshbed results=$build/page/results at=$root/scenarios sizes
  sizes=1K,2K,4K,8K,16K,24K,32K,48K,64K,96K,128K,192K,256K,384K,512K,768K,1M,2M,3M,4M
  mkdir -p "$results/program"
  cc "-I$root/plugin/dropin" "$root/tests/dropin/program/four_ranks.c" -o "$results/program/four_ranks" \
    "-L$build/nccl-lib" -lnccl || return
  printf '[topology]\nkind = "ring"\nnodes = 4\n[workload]\nkind = "program"\nprogram = "four_ranks"\n' \
    >"$results/program/program.toml"
  "$meshbed" run "$at/spark-triangle.toml" --results "$results" &&
    "$meshbed" run "$at/ring8.toml" --fault cable_down,target=node0-node1,at=1ms --results "$results/lost" &&
    "$meshbed" run "$at/megakernel-ring8.toml" --results "$results" &&
    "$meshbed" run "$results/program/program.toml" --results "$results" &&
    "$meshbed" sweep "$at/ring4.toml" --vary workload.bytes=$sizes --vary topology.kind=ring,switch --fail each-cable \
      --results "$results/sweep" &&
    page_of spark-triangle "$results/spark-triangle/sim" && page_of ring8-lost "$results"/lost/ring8*/sim &&
    page_of megakernel-ring8 "$results/megakernel-ring8/sim" && page_of program "$results/program/sim" &&
    page_of sweep "$results/sweep"
}

page_in_browser() {
  (cd "$build/page" && node browser.mjs "$(page_browser)" shots ./*.html)
}

run_page_stage() {
  local reason
  reason=$(page_lacks)
  if [[ -n $reason ]]; then
    count page 0 0 1
    printf '  skipped  page: %s\n' "$reason"
    return
  fi
  check page/packages page_packages
  check page/bundle page_bundle_is_kept
  check page/files page_files
  check page/browser page_in_browser
}
