#!/bin/sh
# Lays out the root of an image: the executable, the libraries it names, a data folder, and nothing else.
# image-root.sh EXECUTABLE ROOT
set -eu
executable=$1 root=$2
mkdir -p "$root/usr/local/bin" "$root/etc"
cp "$executable" "$root/usr/local/bin/troupe"
ldd "$executable" | sed -n 's/^[^/]*\(\/[^ ]*\) (0x.*/\1/p' | while read -r library; do
  mkdir -p "$root$(dirname "$library")"
  cp -L "$library" "$root$library"
done
echo 'troupe:x:65532:65532::/data:/sbin/nologin' >"$root/etc/passwd"
mkdir -p "$root/data" "$root/etc/troupe"
chmod 700 "$root/data"
chown 65532:65532 "$root/data"
