#!/usr/bin/env bash
# Creates the root file system of the image: node, its shared libraries with their licences, and the
# few system files that a process needs without a distribution.
#
#   root.sh <folder>
set -euo pipefail
root=$1
node=$(readlink -f "$(command -v node)")

install -D -m 0755 "$node" "$root/usr/local/bin/node"
ldd "$node" | grep -o '/[^ ]*' | while read -r library; do
  mkdir -p "$root$(dirname "$library")"
  cp --dereference "$library" "$root$library"
  # Image scanners read the package status, and the licences require the copyright files. Debian 12
  # registers a library under /lib, Debian 13 under /usr/lib, so dpkg finds one of the two paths.
  owners=$(dpkg-query --search "$library" "$(readlink -f "$library")" 2>/dev/null || true)
  package=${owners%%:*}
  mkdir -p "$root/var/lib/dpkg/status.d" "$root/usr/share/doc/$package"
  dpkg-query --status "$package" > "$root/var/lib/dpkg/status.d/$package"
  cp --dereference "/usr/share/doc/$package/copyright" "$root/usr/share/doc/$package/copyright"
done
if [ -f /usr/local/LICENSE ]; then install -D -m 0644 /usr/local/LICENSE "$root/usr/share/doc/node/LICENSE"; fi

mkdir -p "$root/etc"
cp /etc/os-release "$root/etc/os-release"
# Host names: the container runtime writes hosts and resolv.conf; this line makes libc read both.
echo 'hosts: files dns' > "$root/etc/nsswitch.conf"
echo 'hub:x:65532:65532:the hub:/nonexistent:/nonexistent' > "$root/etc/passwd"
echo 'hub:x:65532:' > "$root/etc/group"
install -d -o 65532 -g 65532 -m 0750 "$root/data"
install -d -m 1777 "$root/tmp"
