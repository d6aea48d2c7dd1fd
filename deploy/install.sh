#!/bin/sh
# Installs one release of Troupe: checks its sum, unpacks it, and puts the executable in place.
#
#   sh install.sh [--version X.Y.Z] [--prefix DIR] [--from URL-or-folder] [--target NAME] [--signer KEY]
#
# --prefix   where it goes: DIR/bin/troupe, DIR/share/troupe and DIR/share/doc/troupe. Default: $HOME/.local
# --from     where the archive and SHA256SUMS are: an http(s) URL or a folder. Default: where this script was released
# --version  Default: the one that SHA256SUMS at --from names
# --target   e.g. linux-x64-musl. Default: this machine's
# --signer   the key 'ssh-ed25519 AAAA…' by which SHA256SUMS has to be signed. Default: the one that signed this release,
#            where ssh-keygen is there to ask
#
# It never asks for root. For /usr/local, run it as a user who may write there: sudo sh install.sh --prefix /usr/local
set -eu

# Filled in by the release.
releases=
signer=
must_be_signed=no
prefix=${HOME:-}/.local from='' version='' target=''

fail() { echo "install.sh: $*" >&2; exit 1; }
usage() { sed -n '2,/^set -eu/{/^set -eu/d;s/^# \{0,1\}//;p;}' "$0"; }

while [ $# -gt 0 ]; do
  case $1 in
    --help|-h) usage; exit 0 ;;
    --version|--prefix|--from|--target|--signer) [ $# -ge 2 ] || fail "$1 needs a value" ;;
    *) fail "unknown option $1 (see --help)" ;;
  esac
  case $1 in
    --version) version=$2 ;;
    --prefix) prefix=$2 ;;
    --from) from=$2 ;;
    --target) target=$2 ;;
    --signer) signer=$2 must_be_signed=yes ;;
  esac
  shift 2
done
case $prefix in /*) ;; *) fail "--prefix must be an absolute path, not '$prefix'" ;; esac

detect() {
  case $(uname -m) in
    x86_64|amd64) cpu=x64 ;;
    aarch64|arm64) cpu=arm64 ;;
    *) fail "there is no release for $(uname -m); build from source: 'npm run build' in a clone" ;;
  esac
  case $(uname -s) in
    Darwin) echo "darwin-$cpu" ;;
    Linux) if ls /lib/ld-musl-* >/dev/null 2>&1 && ! ls /lib*/ld-linux-* >/dev/null 2>&1; then echo "linux-$cpu-musl"; else echo "linux-$cpu"; fi ;;
    *) fail "this script knows Linux and macOS; for Windows take the zip" ;;
  esac
}

fetch() { # fetch NAME FILE
  case $from in
    http://*|https://*)
      if command -v curl >/dev/null; then curl --fail --silent --show-error --location --output "$2" "$from/$1"
      elif command -v wget >/dev/null; then wget -q -O "$2" "$from/$1"
      else fail "curl or wget is needed to download"; fi ;;
    *) cp "$from/$1" "$2" ;;
  esac || fail "could not get $1 from $from"
}

sum() {
  if command -v sha256sum >/dev/null; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d ' ' -f 1
}

target=${target:-$(detect)}
if [ -z "$from" ]; then
  [ -n "$releases" ] || fail "say with --from where the release is"
  if [ -n "$version" ]; then from=$releases/download/v$version; else from=$releases/latest/download; fi
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fetch SHA256SUMS "$work/SHA256SUMS"
if [ -n "$signer" ] && command -v ssh-keygen >/dev/null; then
  fetch SHA256SUMS.sig "$work/SHA256SUMS.sig"
  printf 'troupe %s\n' "$signer" >"$work/signers"
  ssh-keygen -q -Y verify -f "$work/signers" -I troupe -n file -s "$work/SHA256SUMS.sig" <"$work/SHA256SUMS" >/dev/null 2>&1 ||
    fail "SHA256SUMS at $from is not signed by $signer: nothing was installed"
elif [ "$must_be_signed" = yes ]; then
  fail "ssh-keygen is needed to check a signature"
fi
archive=$(sed -n "s/^[0-9a-f]\{64\}  \(troupe-${version:-[0-9][^ ]*}-$target\.tar\.gz\)\$/\1/p" "$work/SHA256SUMS")
case $archive in
  '') fail "SHA256SUMS at $from names no archive of ${version:-any version} for $target" ;;
  *'
'*) fail "SHA256SUMS at $from names several versions; choose one with --version" ;;
esac
expected=$(sed -n "s/^\([0-9a-f]\{64\}\)  $archive\$/\1/p" "$work/SHA256SUMS")
fetch "$archive" "$work/$archive"
actual=$(sum "$work/$archive")
[ "$actual" = "$expected" ] || fail "$archive has the sum $actual, but SHA256SUMS says $expected: nothing was installed"

tar -xzf "$work/$archive" -C "$work"
unpacked=$work/${archive%.tar.gz}
mkdir -p "$prefix/bin" "$prefix/share/troupe" "$prefix/share/doc" || fail "$prefix can't be written: choose another --prefix"
# Renamed into place: a running server keeps the file it was started from.
cp "$unpacked/troupe" "$prefix/bin/.troupe.new"
chmod 755 "$prefix/bin/.troupe.new"
mv -f "$prefix/bin/.troupe.new" "$prefix/bin/troupe"
for part in personas deploy; do
  rm -rf "${prefix:?}/share/troupe/$part"
  cp -R "$unpacked/$part" "$prefix/share/troupe/$part"
done
place() { mkdir -p "$prefix/$2" && cp "$unpacked/$1" "$prefix/$2/$3"; }
place man/troupe.1 share/man/man1 troupe.1
place man/troupe.yaml.5 share/man/man5 troupe.yaml.5
place completions/troupe.bash share/bash-completion/completions troupe
place completions/_troupe share/zsh/site-functions _troupe
place completions/troupe.fish share/fish/vendor_completions.d troupe.fish
# As in the archive, so that every link leads somewhere.
pages=$prefix/share/doc/troupe
rm -rf "${pages:?}" && mkdir -p "$pages"
cp -R "$unpacked/docs" "$unpacked/LICENSE" "$unpacked"/*.md "$unpacked"/THIRD-PARTY-NOTICES.txt "$pages/"
ln -s ../../troupe/deploy "$pages/deploy"

"$prefix/bin/troupe" version || fail "the executable is in place but does not run here; is $target right for this machine?"
case :$PATH: in
  *":$prefix/bin:"*) ;;
  *) echo "Add $prefix/bin to PATH, or call $prefix/bin/troupe." ;;
esac
