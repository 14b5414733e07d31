# shellcheck shell=bash disable=SC2154,SC2034  # build and no_install are the launcher's
# Packages of Debian that the build and its programs need, by group; sourced by ./meshbed. The build's own come first;
# `meshbed --needs` prints which other groups a command line needs (cli/command/needs.cpp).

# Libraries and tools of the build.
build_packages=(g++ cmake ninja-build mold libsimgrid-dev libibverbs-dev libboost-program-options-dev libboost-context-dev
                libtomlplusplus-dev nlohmann-json3-dev libfmt-dev libxxhash-dev nettle-dev libzstd-dev liblz4-dev
                doctest-dev libvalijson-dev libprotobuf-dev protobuf-compiler libyaml-cpp-dev libpugixml-dev
                libarchive-dev)

# For the emulated world: QEMU, the programs of its guests, and the tools that unpack their kernel.
namespace_packages=(rdma-core ibverbs-providers iproute2)  # in this host's own kernel
emu_packages=(qemu-system-x86 busybox-static xz-utils "${namespace_packages[@]}")

# The programs with which `bench perftest` compares.
perftest_packages=(perftest)

# For `install`: to build the Python module, and numpy for its arrays.
python_packages=(python3-dev pybind11-dev python3-numpy)

# The instruction counter of `bench cost`.
cost_packages=(valgrind)

missing_packages() {
  local package
  for package in "$@"; do
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || printf '%s\n' "$package"
  done
}

# require STAMP PACKAGE...: makes sure that they are installed. The stamp records that for this list of packages and
# this state of dpkg, so that the next call need not query dpkg.
require() {
  local stamp=$build/$1 list missing
  shift
  list="$* $(stat -c %Y /var/lib/dpkg/status 2>/dev/null || true)"
  [[ -f $stamp && $(<"$stamp") == "$list" ]] && return
  command -v dpkg-query >/dev/null || die "this is not Debian: install the equivalents of: $*"
  mapfile -t missing < <(missing_packages "$@")
  if ((${#missing[@]})); then
    install_packages "${missing[@]}"
    list="$* $(stat -c %Y /var/lib/dpkg/status)"
  fi
  mkdir -p "$build"
  printf '%s' "$list" >"$stamp"
}

# require_group GROUP: the same of GROUP_packages above.
require_group() {
  local -n group=$1_packages
  require ".meshbed-$1-packages" "${group[@]}"
}

install_packages() {
  local line="apt-get install -y --no-install-recommends $*" as_root=()
  say "needs these packages: $*"
  ((no_install)) && die "not installed (--no-install). To install them: $line"
  if ((EUID != 0)); then
    command -v sudo >/dev/null || die "neither root nor sudo here. To install them as root: $line"
    as_root=(sudo)
  fi
  say "$line"
  "${as_root[@]}" apt-get update -qq >&2 || die "apt-get update failed"
  # shellcheck disable=SC2086
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive $line >&2 || die "apt-get failed"
}
