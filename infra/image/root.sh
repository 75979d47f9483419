#!/usr/bin/env bash
# Creates the root file system of the image: node, its shared libraries with their licences, and the
# few system files that a process needs without a distribution.
#
#   root.sh <folder>
set -euo pipefail
root=$1
node=$(readlink -f "$(command -v node)")

package_of=$(dirname "$0")/package-of.sh

install -D -m 0755 "$node" "$root/usr/local/bin/node"
ldd "$node" | grep -o '/[^ ]*' | while read -r library; do
  mkdir -p "$root$(dirname "$library")"
  cp --dereference "$library" "$root$library"
  # Image scanners read the package status, and the licences require the copyright files. Debian 12
  # registers a library under /lib, Debian 13 under /usr/lib. dpkg-query finds one of the two paths, and
  # fails for the other.
  found=$(LC_ALL=C.UTF-8 dpkg-query --search "$library" "$(readlink -f "$library")" 2>/dev/null || true)
  package=$(bash "$package_of" <<< "$found")
  if [ -z "$package" ]; then echo "No package of Debian contains $library." >&2; exit 1; fi
  name=${package%%:*}
  mkdir -p "$root/var/lib/dpkg/status.d" "$root/usr/share/doc/$name"
  dpkg-query --status "$package" > "$root/var/lib/dpkg/status.d/$name"
  cp --dereference "/usr/share/doc/$name/copyright" "$root/usr/share/doc/$name/copyright"
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
