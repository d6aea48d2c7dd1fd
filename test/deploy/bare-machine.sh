#!/bin/sh
# Runs a script on a copy of this machine that nothing of it leaves: files, network and processes are its own.
# bare-machine.sh FOLDER RELEASE TOOLS SCRIPT: an empty folder, what is at /release there, and commands that stand in.
set -eu
folder=$1 release=$2 tools=$3 script=$4
mount --make-rprivate /
mount -t tmpfs tmpfs "$folder"
mkdir "$folder/upper" "$folder/work" "$folder/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$folder/upper,workdir=$folder/work" "$folder/root"
root=$folder/root
for path in /tmp /run /etc/troupe /etc/systemd/system /var/lib/troupe /var/backups; do
  mkdir -p "$root$path"
  mount -t tmpfs tmpfs "$root$path"
done
rm -rf "$root/usr/local/bin/troupe" "$root/usr/local/share/troupe"
# Manual pages are not indexed anew by each installation.
rm -f "$root/var/lib/man-db/auto-update"
mkdir "$root/tmp/release"
cp "$release"/* "$root/tmp/release"
for tool in "$tools"/*.sh; do install -m 755 "$tool" "$root/usr/local/bin/$(basename "$tool" .sh)"; done
cp "$script" "$root/tmp/script"
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
ip link set lo up
exec chroot "$root" sh -c 'cd /tmp/release && exec sh -eux /tmp/script'
