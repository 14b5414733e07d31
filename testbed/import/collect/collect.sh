#!/bin/sh
# meshbed collect: gathers what one node knows about its network, NICs and GPUs into one small archive.
#
#   sh collect.sh [FILE]                              writes FILE; default: meshbed-collect-HOST.tar.gz
#   ssh NODE sh -s - <collect.sh >NODE.tar.gz         writes to standard output, which is no terminal
#
# Needs a POSIX shell alone, and no root: what is missing or not allowed is listed in the archive's file "missing".
# Changes nothing. Passwords and private keys are removed from configuration files.
# MESHBED_COLLECT_ROOT: a folder in whose sys, etc, proc and dev to look, for tests.

have() { command -v "$1" >/dev/null 2>&1; }

note() { printf '%s\n' "$1" >>"$dir/missing"; }

# run NAME COMMAND...: the command's output as a part. 1: there is none.
run() {
  part=$1
  shift
  if ! have "$1"; then
    note "$part: $1 is not installed"
    return 1
  fi
  $limit "$@" >"$dir/$part" 2>"$work/errors"
  status=$?
  [ -s "$dir/$part" ] && [ "$status" -eq 0 ] && return 0
  reason=
  read -r reason <"$work/errors"
  [ "$status" -eq 124 ] && reason="no answer within 20 s"
  note "$part: $* ended with status $status${reason:+: $reason}"
  [ -s "$dir/$part" ] || rm -f "$dir/$part"
  return 1
}

# either NAME COMMAND... -- OTHER_NAME COMMAND...: the first one that works, as older tools lack options.
either() {
  failed=$1
  first=
  while [ "$1" != -- ]; do
    first="$first $1"
    shift
  done
  shift
  # shellcheck disable=SC2086
  if run $first; then return 0; fi
  rm -f "$dir/$failed"
  run "$@"
}

# value FILE: its first line, or nothing.
value() {
  line=
  [ -r "$1" ] && read -r line <"$1" 2>/dev/null
  printf '%s' "$line"
}

# pair KIND NAME KEY FILE: "KIND NAME KEY VALUE" where the file has a value.
pair() {
  line=
  [ -r "$4" ] && read -r line <"$4" 2>/dev/null
  [ -n "$line" ] && printf '%s %s %s %s\n' "$1" "$2" "$3" "$line"
}

# The name of the PCI function behind a device's link.
pci_of() {
  target=$(readlink "$1/device" 2>/dev/null) || return
  target=${target##*/}
  case $target in *:*:*.*) printf '%s' "$target" ;; esac
}

list_net() {
  for net in "$root"/sys/class/net/*; do
    [ -e "$net" ] || continue
    name=${net##*/}
    [ "$name" = lo ] && continue
    for key in address mtu operstate speed phys_port_name; do pair net "$name" "$key" "$net/$key"; done
    function=$(pci_of "$net")
    [ -n "$function" ] && printf 'net %s pci %s\n' "$name" "$function"
    [ -d "$net/wireless" ] && printf 'net %s kind wifi\n' "$name"
    [ -d "$net/bridge" ] && printf 'net %s kind bridge\n' "$name"
    above=$(readlink "$net/master" 2>/dev/null)
    [ -n "$above" ] && printf 'net %s master %s\n' "$name" "${above##*/}"
    [ -d "$net/bonding" ] || continue
    printf 'net %s kind bond\n' "$name"
    for key in mode xmit_hash_policy active_slave primary; do pair net "$name" "bond_$key" "$net/bonding/$key"; done
  done
}

list_rdma() {
  for device in "$root"/sys/class/infiniband/*; do
    [ -e "$device" ] || continue
    name=${device##*/}
    for key in node_guid sys_image_guid fw_ver; do pair rdma "$name" "$key" "$device/$key"; done
    for key in state phys_state rate link_layer; do pair rdma "$name" "$key" "$device/ports/1/$key"; done
    function=$(pci_of "$device")
    [ -n "$function" ] && printf 'rdma %s pci %s\n' "$name" "$function"
    for net in "$device"/device/net/*; do
      [ -e "$net" ] && printf 'rdma %s netdev %s\n' "$name" "${net##*/}" && break
    done
  done
}

# The columns of show_gids. Entries of zeros are free places of the table.
list_gids() {
  for gid in "$root"/sys/class/infiniband/*/ports/*/gids/*; do
    [ -r "$gid" ] || continue
    text=
    read -r text <"$gid" 2>/dev/null
    case $text in '' | 0000:0000:0000:0000:0000:0000:0000:0000) continue ;; esac
    port=${gid%/gids/*}
    device=${port%/ports/*}
    index=${gid##*/}
    type=
    netdev=
    [ -r "$port/gid_attrs/types/$index" ] && read -r type <"$port/gid_attrs/types/$index" 2>/dev/null
    [ -r "$port/gid_attrs/ndevs/$index" ] && read -r netdev <"$port/gid_attrs/ndevs/$index" 2>/dev/null
    case $type in *v2*) type=v2 ;; *v1*) type=v1 ;; *) type=IB ;; esac
    printf '%s\t%s\t%s\t%s\t%s\t%s\n' "${device##*/}" "${port##*/}" "$index" "$text" "$type" "$netdev"
  done
}

# Links of network and display controllers.
list_pci() {
  for function in "$root"/sys/bus/pci/devices/*; do
    [ -r "$function/class" ] || continue
    case $(value "$function/class") in 0x02* | 0x03*) ;; *) continue ;; esac
    name=${function##*/}
    for key in class vendor device current_link_speed current_link_width max_link_speed max_link_width; do
      pair pci "$name" "$key" "$function/$key"
    done
  done
}

list_modules() {
  for module in mlx5_core mlx5_ib ib_core ib_uverbs rdma_rxe nvidia nvidia_peermem nv_peer_mem gdrdrv irdma bnxt_re; do
    [ -d "$root/sys/module/$module" ] || continue
    version=$(value "$root/sys/module/$module/version")
    printf 'module %s %s\n' "$module" "${version:-loaded}"
  done
}

# Without passwords, keys of wireless networks and of tunnels, and PEM blocks.
without_secrets() {
  # shellcheck disable=SC2016
  awk '
    BEGIN {
      secret = "[a-z0-9_.-]*(passw|passphrase|secret|psk|private|shared|token|key)[a-z0-9_.]*"
      secret = secret "|[a-z0-9_.-]*(passwd|password|psk|key)-[a-z0-9_.-]*(value|raw|data|password)|pin"
      quote = "[\"\047]?"
      whole = "^[ \t]*(-[ \t]+)?" quote "(" secret ")" quote "[ \t]*[:=]"
      inner = "[{,][ \t]*" quote "(" secret ")" quote "[ \t]*:[ \t]*"
    }
    /-----BEGIN/ { in_pem = 1 }
    in_pem { if (/-----END/) in_pem = 0; next }
    {
      match($0, /^[ \t]*/)
      indent = RLENGTH
      if (hides && (indent > hidden || $0 ~ /^[ \t]*$/)) next
      hides = 0
      low = tolower($0)
      # Keys of NetworkManager may have blanks: "Xauth password=".
      found = match(low, /^[^={}:]*(passw|secret|psk|private|token)[^={}:]*=/)
      if (!found) found = match(low, whole) && substr($0, RLENGTH + 1) !~ /^[ \t]*[{[]/
      if (found) {
        start = substr($0, 1, RLENGTH)
        rest = substr($0, RLENGTH + 1)
        tail = ""
        if (rest ~ /[]}]/ && match(rest, /[]} \t,]+$/)) tail = substr(rest, RSTART)
        print start " REMOVED" tail
        hides = 1
        hidden = indent
        next
      }
      line = $0
      out = ""
      while (match(tolower(line), inner)) {
        out = out substr(line, 1, RSTART + RLENGTH - 1)
        line = substr(line, RSTART + RLENGTH)
        mark = substr(line, 1, 1)
        if (mark == "{" || mark == "[") continue  # what is in it has keys of its own
        out = out "REMOVED"
        at = 1
        if (mark == "\"" || mark == "\047") {
          for (at = 2; at <= length(line); at++) {
            letter = substr(line, at, 1)
            if (letter == "\\" && mark == "\"") at++
            else if (letter == mark) break
          }
          at++
        } else {
          while (at <= length(line) && substr(line, at, 1) !~ /[],}]/) at++
        }
        line = substr(line, at)
      }
      print out line
    }' "$1"
}

copy_configuration() {
  for file in "$root"/etc/netplan/*.yaml "$root"/etc/netplan/*.yml "$root"/etc/NetworkManager/system-connections/* \
    "$root"/etc/NetworkManager/conf.d/* "$root"/etc/systemd/network/*.network "$root"/etc/systemd/network/*.netdev \
    "$root"/etc/network/interfaces "$root"/etc/nccl.conf "$root"/etc/security/limits.conf "$root"/etc/os-release; do
    [ -f "$file" ] || continue
    name=${file#"$root"/}
    if [ ! -r "$file" ]; then
      note "$name: is readable for root alone; run as root to include it"
      continue
    fi
    if ! have awk; then
      note "$name: awk is not installed, and without it secrets in configuration files could not be removed"
      continue
    fi
    mkdir -p "$dir/${name%/*}"
    without_secrets "$file" >"$dir/$name"
  done
}

collect_commands() {
  either ip-addr.json ip -j -d addr -- ip-addr.txt ip -d addr
  either ip-route.json ip -j route show table all -- ip-route.txt ip route
  either ip-neigh.json ip -j neigh -- ip-neigh.txt ip neigh
  run ip-rule.txt ip rule
  either rdma-link.json rdma -j link -- rdma-link.txt rdma link
  run ibv_devinfo.txt ibv_devinfo -v
  run ibdev2netdev.txt ibdev2netdev
  run show_gids.txt show_gids
  run lspci.txt lspci -D -vvv
  either lldpctl.json lldpctl -f json -- lldpctl.txt lldpctl
  run nvidia-smi.xml nvidia-smi -q -x
  run nvidia-smi-topo.txt nvidia-smi topo -m
  run iptables.txt iptables-save
  run nft.txt nft list ruleset
  for net in "$root"/sys/class/net/*; do
    [ -e "$net/device" ] || continue
    name=${net##*/}
    run "ethtool-$name.txt" ethtool "$name" || continue
    run "ethtool-driver-$name.txt" ethtool -i "$name"
    run "ethtool-pause-$name.txt" ethtool -a "$name"
    run "ethtool-counters-$name.txt" ethtool -S "$name"
  done
}

collect_rest() {
  printf '%s\n' "$host" >"$dir/hostname"
  uname -a >"$dir/kernel.txt" 2>/dev/null
  # shellcheck disable=SC3045  # where it is not known, this is noted
  (ulimit -l) >"$dir/ulimit.txt" 2>/dev/null || note "ulimit.txt: this shell has no ulimit -l"
  list_net >"$dir/sysfs-net.txt"
  list_rdma >"$dir/sysfs-rdma.txt"
  list_gids >"$dir/sysfs-gids.txt"
  list_pci >"$dir/sysfs-pci.txt"
  list_modules >"$dir/modules.txt"
  for name in "$root"/dev/infiniband/*; do
    [ -e "$name" ] && printf '%s\n' "${name##*/}"
  done >"$dir/dev-infiniband.txt"
  [ -s "$dir/dev-infiniband.txt" ] || note "dev-infiniband.txt: there is no /dev/infiniband"
  env | while IFS= read -r line; do
    case $line in NCCL_*=* | UCX_NET_DEVICES=* | LD_LIBRARY_PATH=*) printf '%s\n' "$line" ;; esac
  done >"$dir/env.txt"
  if have dmesg && have grep; then
    $limit dmesg 2>/dev/null | grep -i -E 'mlx5|infiniband|rdma|nvrm|xid|iommu|aer:' >"$dir/dmesg.txt"
  fi
  for name in sysfs-net sysfs-rdma sysfs-gids sysfs-pci modules dev-infiniband env dmesg; do
    [ -s "$dir/$name.txt" ] || rm -f "$dir/$name.txt"
  done
}

# The archive on standard output: tar with gzip, or a list of the parts as head and tail print several files.
pack() {
  if [ "$form" = tar.gz ]; then
    tar -C "$work" -cf - "${dir##*/}" | gzip -c
  elif [ "$form" = tar ]; then
    tar -C "$work" -cf - "${dir##*/}"
  else
    for file in "$dir"/* "$dir"/etc/* "$dir"/etc/*/* "$dir"/etc/*/*/*; do
      [ -f "$file" ] || continue
      printf '==> %s <==\n' "${file#"$dir"/}"
      cat "$file"
      printf '\n'
    done
  fi
}

main() {
  set -u
  umask 077
  LC_ALL=C
  [ -n "${MESHBED_COLLECT_ROOT:-}" ] || PATH=$PATH:/usr/sbin:/sbin:/usr/local/sbin
  export LC_ALL PATH
  root=${MESHBED_COLLECT_ROOT:-}
  host=$(hostname 2>/dev/null) || host=$(value /proc/sys/kernel/hostname)
  host=${host%%.*}
  host=${host:-unknown}
  work=${TMPDIR:-/tmp}/meshbed-collect.$$
  mkdir "$work" || return 1
  trap 'rm -rf "$work"' EXIT
  trap 'exit 1' HUP INT TERM
  dir=$work/meshbed-collect-$host
  mkdir "$dir" || return 1
  : >"$dir/missing"
  limit=
  if have timeout && timeout 5 true 2>/dev/null; then limit='timeout 20'; fi

  collect_rest
  copy_configuration
  collect_commands

  form=tar.gz
  have gzip || form=tar
  have tar || form=txt
  # A shell drops the "-" of "sh -s -".
  if [ -t 1 ]; then out=meshbed-collect-$host.$form; else out=-; fi
  out=${1:-$out}
  if [ "$out" = - ]; then pack; else pack >"$out"; fi || return 1
  missing=0
  while read -r line; do missing=$((missing + 1)); done <"$dir/missing"
  set -- "$dir"/*
  [ "$out" = - ] && out='standard output'
  printf 'meshbed collect: %s: %s parts in %s; %s missing, listed in its file "missing"\n' \
    "$host" "$(($# - 1))" "$out" "$missing" >&2
}

# In one line, so that a shell that reads this from standard input has read all of it, and commands read nothing of it.
main "$@" </dev/null
exit
