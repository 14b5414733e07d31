# shellcheck shell=bash disable=SC2154  # build is the launcher's
# ./meshbed install PREFIX: its command line, and the installation of the built files; sourced by ./meshbed.

# read_install_options ARGUMENT...: exits after the help, or with an error unless there is exactly one folder.
read_install_options() {
  local text='usage: ./meshbed install PREFIX

Builds the command, the plugin, the engine, the drop-ins, libmeshbed and the Python module, and installs them:
  PREFIX/bin/meshbed                        the command
  PREFIX/lib/libnccl-net-mesh.so, ...       for NCCL_NET_PLUGIN and programs; PREFIX/lib/meshbed has all that ranks load
  PREFIX/lib/libmeshbed.so, include         for programs: find_package(Meshbed), pkg-config meshbed
  PREFIX/lib/python3/dist-packages          for PYTHONPATH: import meshbed
  PREFIX/share/meshbed                      scenarios and profiles'
  if [[ ${1:-} == --help || ${1:-} == -h ]]; then
    printf '%s\n' "$text"
    exit
  fi
  [[ $# == 1 && -n ${1:-} && $1 != -* ]] || die "install needs one folder: ./meshbed install PREFIX"
}

install_into() {
  local prefix log
  prefix=$(realpath -m "$1")
  log=$(cmake --install "$build" --prefix "$prefix" 2>&1) || { printf '%s\n' "$log" >&2; die "install into $prefix failed"; }
  say "installed into $prefix: $(find "$prefix/lib/meshbed" -type f | wc -l) files in lib/meshbed; try $prefix/bin/meshbed --version"
}
