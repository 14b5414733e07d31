#!/bin/sh
# one_node_slurm.sh start|stop FOLDER: a Slurm of this machine alone, for a test. `start` writes FOLDER/slurm.conf; exit
# status 1, with the reason, where that is not possible. Needs root, and Debian's slurm-wlm and munge.
# Nothing of the machine's own Slurm is touched: other ports, other folders.
set -u
folder=$2
if [ "$1" = stop ]; then
  for daemon in slurmd slurmctld munged; do
    [ -s "$folder/$daemon.pid" ] && kill "$(cat "$folder/$daemon.pid")"
  done
  exit 0
fi
[ "$(id -u)" = 0 ] || { echo "Slurm's daemons need root"; exit 1; }
for program in slurmctld slurmd munged sbatch; do
  command -v "$program" >/dev/null || { echo "there is no $program (Debian: slurm-wlm, munge)"; exit 1; }
done
mkdir -p "$folder/state" "$folder/spool"
chmod 0700 "$folder/state"
head -c 1024 /dev/urandom >"$folder/munge.key"
chmod 0400 "$folder/munge.key"
# The socket's folder must be one that everyone may enter.
munged --socket="$folder/munge.socket" --key-file="$folder/munge.key" --pid-file="$folder/munged.pid" \
  --log-file="$folder/munged.log" --seed-file="$folder/munged.seed" --force >"$folder/munged.out" 2>&1 ||
  { echo "munged does not start: $(tail -n 1 "$folder/munged.out")"; exit 1; }
name=$(hostname -s)
cat >"$folder/slurm.conf" <<CONF
ClusterName=one
SlurmctldHost=$name(127.0.0.1)
SlurmctldPort=16817
SlurmdPort=16818
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket
CredType=cred/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
NodeName=$name NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
export SLURM_CONF="$folder/slurm.conf"
slurmctld && slurmd || { echo "Slurm's daemons do not start: $(tail -n 1 "$folder/slurmctld.log")"; exit 1; }
# sbatch itself waits for the node.
