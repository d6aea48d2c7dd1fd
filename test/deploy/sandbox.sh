#!/bin/sh
# Runs a program with what deploy/troupe.service takes from it, as far as this can be done without systemd.
# sandbox.sh USER ROOT STATE PROGRAM ARGUMENT...: ROOT is an empty folder; STATE and the program's folder stay there.
set -eu
user=$1 root=$2 state=$3 program=$4
shift 4
mount --make-rprivate /
mount --bind / "$root"                                           # ProtectSystem=strict, with the last line of these
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"                    # PrivateTmp
mkdir -p "$root$state" "$root$(dirname "$program")"
mount --bind "$state" "$root$state"                              # StateDirectory
mount --bind "$(dirname "$program")" "$root$(dirname "$program")"
mount -t tmpfs tmpfs "$root/dev"                                 # PrivateDevices
for device in null zero full random urandom; do
  : >"$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
mount -o remount,ro "$root/dev"
mount -t proc -o hidepid=invisible,subset=pid proc "$root/proc"  # ProtectProc, ProcSubset
mount -t tmpfs -o ro tmpfs "$root/root"                          # ProtectHome
mount -t tmpfs -o ro tmpfs "$root/home"
mount -o remount,bind,ro "$root"
# LimitCORE; DynamicUser, NoNewPrivileges, CapabilityBoundingSet; and every system call written down.
exec prlimit --core=0 chroot "$root" \
  setpriv --reuid="$user" --regid="$user" --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all \
  strace -D -f -qq -o "$state/trace" "$program" "$@"
