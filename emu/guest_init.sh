#!/bin/busybox sh
# /init: the first and only process of an emulated node that is ours.
#
# It turns the bare kernel into a node: the host's own file system below an overlay in memory, the NICs of the scenario
# with their names and addresses, a soft-RoCE device on each; then it prints @@READY on the console, waits for a line
# from the host (which the host sends when all nodes are ready), runs the node's commands, and stays until it is
# switched off.
#
# Its input, in the 9p share "job" (one folder of the host for each node, writable):
#   node          shell variables: NODE_NAME, JOB_PATH (the folder's path on the host), COMMANDS (their number),
#                 TERMINAL
#   hosts         becomes /etc/hosts
#   nics          lines "MAC NETDEV MTU WIRED RDMA_DEVICE ADDRESS...": WIRED 0 or 1, RDMA_DEVICE "-" for none
#   gids          lines "RDMA_DEVICE GID": the GIDs that must be in the tables before a command may start
#   terminal      the shell script that runs on the second serial line, where TERMINAL is 1
#   command-K     a shell script that becomes the K-th command
# Its input on the console once it is ready: "go", then any number of lines "do N COMMAND...", a command for the host's
# tools.
# Its output in the share: command-K.stdout, command-K.stderr, command-K.exit, terminal.exit, did-N.stderr, dmesg, and
# fail if it could not go on.
# Marks on the console, with the guest's uptime: @@INIT @@ROOT @@READY @@DID N rc @@EXIT K rc @@DONE rc=N, or @@FAIL why.
#
# The guest's clock runs wrong on a busy host: its numbers are for reading, the host keeps the time.
export PATH=/bin

mark() {
  read -r up rest </proc/uptime
  echo "@@$* up=$up"
}

# The last mark is printed when everything is in the job folder. The node stays up for its peers, which may still send to
# it, and for commands of the host, until the host switches it off.
end() {
  dmesg >/job/dmesg 2>/dev/null
  sync
  mark "$@"
  if [ -n "$listener" ]; then
    wait "$listener"
  else
    # shellcheck disable=SC2034
    read -r off
  fi
  exec poweroff -f
}
listener=

# Carries out the host's lines on the console, one after the other.
listen() {
  while read -r verb number line; do
    [ "$verb" = "do" ] || continue
    # shellcheck disable=SC2086  # the host sends words without blanks in them
    in_root $line </dev/null >/dev/null 2>"/job/did-$number.stderr"
    mark "DID $number $?"
  done
}

fail() {
  [ -f /job/node ] && echo "$*" >/job/fail
  end "FAIL $*"
}

load() {
  while read -r module; do
    insmod "$module" || fail "the kernel does not take $module"
  done <"$1"
}

mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys
mark INIT
load /lib/early.list

# ---- the two shares ------------------------------------------------------------------------------------------------
# The job folder is not cached: the host reads results while they are written. The root is: it does not change meanwhile.
share=trans=virtio,version=9p2000.L,msize=262144
mount -t 9p -o $share,cache=none job /job || fail "no job folder"
# shellcheck disable=SC1091
. /job/node
mount -t 9p -o ro,$share,cache=loose host /lower || fail "the host's file system cannot be mounted"
mount -t tmpfs -o size=50% writes /writes
mkdir /writes/upper /writes/work
mount -t overlay -o lowerdir=/lower,upperdir=/writes/upper,workdir=/writes/work overlay /host ||
  fail "no overlay over the host's file system"
mount -t devtmpfs dev /host/dev
mount -t proc proc /host/proc
mount -t sysfs sys /host/sys
# /run holds what belongs to the host's processes. /tmp stays the host's: a build may lie there, the overlay takes writes.
mount -t tmpfs run /host/run
mkdir /host/run/home
mkdir -p /host/dev/shm /host/dev/pts
mount -t tmpfs shm /host/dev/shm
mount -t devpts pts /host/dev/pts
# At the same place as on the host, so that a path into it means the same on both sides.
mkdir -p "/host$JOB_PATH"
mount -o bind /job "/host$JOB_PATH" || fail "the job folder cannot be put at $JOB_PATH"
cp /job/hosts /host/etc/hosts
hostname "$NODE_NAME"
mark ROOT

# ---- interfaces ----------------------------------------------------------------------------------------------------
load /lib/net.list
in_root() { chroot /host /usr/bin/env PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"; }
# Duplicate address detection would keep IPv6 addresses unusable for a second or more.
echo 0 >/proc/sys/net/ipv6/conf/all/accept_dad
echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad
ip link set lo up
# All names away first: the scenario may give one NIC the name that the kernel gave another.
for device in /sys/class/net/eth*; do
  [ -e "$device" ] && ip link set "${device##*/}" name "new-${device##*/}"
done
while read -r mac netdev mtu wired rdma addresses; do
  found=
  for device in /sys/class/net/new-*; do
    [ "$(cat "$device/address" 2>/dev/null)" = "$mac" ] && found=${device##*/}
  done
  [ -n "$found" ] || fail "there is no NIC with the address $mac"
  ip link set "$found" name "$netdev" || fail "the NIC $mac cannot be named $netdev"
  ip link set "$netdev" mtu "$mtu" up || fail "$netdev cannot be brought up with an MTU of $mtu"
  echo 0 >"/proc/sys/net/ipv6/conf/$netdev/accept_dad"
  for address in $addresses; do
    ip addr add "$address" dev "$netdev" || fail "$netdev does not take the address $address"
  done
  if [ "$rdma" != - ]; then
    in_root rdma link add "$rdma" type rxe netdev "$netdev" || fail "no soft-RoCE device $rdma on $netdev"
  fi
done </job/nics

# ---- until the ports are up and their GIDs there -------------------------------------------------------------------
waited_too_long() {
  read -r up rest </proc/uptime
  [ "${up%.*}" -ge "$give_up" ]
}
read -r up rest </proc/uptime
give_up=$((${up%.*} + 120))
while read -r mac netdev mtu wired rdma addresses; do
  if [ "$rdma" = - ] || [ "$wired" = 0 ]; then continue; fi
  port=/sys/class/infiniband/$rdma/ports/1
  until grep -q ACTIVE "$port/state"; do
    waited_too_long && fail "the port of $rdma is not active: $(cat "$port/state")"
    sleep 0.05
  done
done </job/nics
while read -r rdma gid; do
  gids=/sys/class/infiniband/$rdma/ports/1/gids
  # The table has 1024 entries; ours are among the first.
  until cat "$gids"/[0-9] "$gids"/[1-5][0-9] 2>/dev/null | grep -q "$gid"; do
    waited_too_long && fail "$rdma has no GID $gid"
    sleep 0.05
  done
done </job/gids

# ---- the commands --------------------------------------------------------------------------------------------------
mark READY
# shellcheck disable=SC2034  # the line itself is of no interest
read -r go || fail "the host went away"
# A process in the background has no standard input unless it is given one.
exec 3<&0
listen <&3 &
listener=$!
command=0
processes=
while [ "$command" -lt "$COMMANDS" ]; do
  in_root HOME=/run/home HOSTNAME="$NODE_NAME" /bin/sh "$JOB_PATH/command-$command" \
    </dev/null >"/job/command-$command.stdout" 2>"/job/command-$command.stderr" &
  processes="$processes $!"
  command=$((command + 1))
done
# shellcheck disable=SC2153
if [ "$TERMINAL" = 1 ]; then
  # A session of its own on that line, so that the keyboard's signals go to what runs there.
  in_root HOME=/run/home HOSTNAME="$NODE_NAME" TERM=linux setsid -c /bin/sh "$JOB_PATH/terminal" \
    </dev/ttyS1 >/dev/ttyS1 2>&1 &
  shell=$!
fi
mark START
command=0
result=0
for process in $processes; do
  wait "$process"
  status=$?
  echo "$status" >"/job/command-$command.exit"
  mark "EXIT $command $status"
  [ "$result" = 0 ] && result=$status
  command=$((command + 1))
done
# That of the shell is its user's business, as with ssh: no result of the commands.
if [ "$TERMINAL" = 1 ]; then
  wait "$shell"
  echo "$?" >/job/terminal.exit
fi
end "DONE rc=$result"
