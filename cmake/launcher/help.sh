# shellcheck shell=bash disable=SC2154  # root and program are the launcher's
# --help and --version, which never build; sourced by ./meshbed.

# may_want_help WORD...: whether one of the words is --help. It may belong to another program, as in
# `exec ... -- PROGRAM --help`: `meshbed --needs` decides, which prints nothing for a command line that requests help.
may_want_help() {
  [[ -z ${1:-} || $1 == help || $1 == --version || " $* " == *" --help "* || " $* " == *" -h "* ]]
}

# own_help WORD...: the launcher's own help, used before the first build.
own_help() {
  local version commands
  version=$(sed -n 's/^project(meshbed VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt")
  if [[ ${1:-} == --version ]]; then
    printf 'meshbed %s\n' "$version"
    return
  fi
  commands=$(sed -n 's/^MESHBED_COMMAND(\([a-z]*\), [A-Za-z]*, "\(.*\)")$/\1 \2/p' "$root/cli/command/commands.def" |
    while read -r name summary; do printf '  %-13s%s\n' "$name" "$summary"; done)
  printf '%s\n' "meshbed $version: try an RDMA mesh before you cable it" '' 'usage: ./meshbed COMMAND [arguments]' '' \
    "$commands" '' 'Nothing is built yet. Build first for the options of each command: ./meshbed env builds the program,' \
    'and ./meshbed run scenarios/pair.toml runs a first scenario.'
}

# show_help WORD...: prints the help of the last built program, or the launcher's own, and exits. It never builds. Returns
# if the words do not request help.
show_help() {
  local needs
  if [[ -x $program ]]; then
    if needs=$("$program" --needs "$@" 2>/dev/null); then
      [[ -n $needs ]] || exec "$program" "$@"
    elif [[ " $* " != *" -- "* ]]; then
      exec "$program" "$@"  # a program older than --needs
    fi
  elif [[ " $* " != *" -- "* ]]; then
    if (($#)); then own_help "$@"; else own_help >&2; fi
    exit "$((2 * ($# == 0)))"
  fi
}
