# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034 # sourced: the scripts that describe a machine use the names
# How is a machine emulated? Sourced by the descriptions of machines: e2e/nic/machine, e2e/cgroup2/machine. QEMU and its system are made
# of Debian's packages and kept in a cache. No KVM is needed, so it is some 20 times slower than a real machine: it is for tests
# of behavior, not of speed.
: "${SPATE_CACHE:?is set by make}"
emulated=$SPATE_CACHE/emulated

# QEMU has the NICs of e2e/nic since 8.0: Debian 13 is the first with that.
qemu_suite=trixie

die() { say "error: $*" >&2; exit 1; }

# made NAME KEY COMMAND: a folder of the cache that a command fills, once for each key; that of the key before goes.
made() {
  local place
  place=$emulated/$1-$(sha256sum <<< "$2" | cut -c1-12)
  mkdir -p "$emulated"
  exec {lock}> "$emulated/$1.lock"
  flock "$lock"
  if [ ! -d "$place" ]; then
    rm -rf --one-file-system "$emulated/$1"-*
    mkdir -p "$place.new"
    "$3" "$place.new" >&2 {lock}>&-
    mv "$place.new" "$place"
  fi
  exec {lock}>&-
  echo "$place"
}

# debian VARIANT SUITE PACKAGES FOLDER: without what nobody reads there.
debian() {
  ../../build/debian --variant="$1" --include="$3" --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' "$2" "$4"
}

# archive_of FOLDER: an initial file system as a kernel reads it (cpio). Archives may follow each other.
archive_of() { (cd "$1" && find . | busybox cpio -o -H newc 2>/dev/null); }

make_qemu() {
  say "taking QEMU from Debian $qemu_suite (once; usually 10-60 s)"
  debian extract "$qemu_suite" base-files,qemu-system-x86,seabios "$1/root"
  mkdir -p "$1/root/mnt"
}

# emulate SECONDS FOLDER ARGUMENT...: runs QEMU, in which FOLDER is /mnt, and kills it after that time. It needs a mount
# namespace of its own. FOLDER/console has the output of the first serial line. Each CPU has a thread unless threads=single.
# QEMU has the device files of the list `devices`.
emulate() {
  local patience=$1 folder=$2 qemu device status=0
  shift 2
  qemu=$(made qemu "$(declare -f debian make_qemu) $qemu_suite" make_qemu)
  mount --rbind "$folder" "$qemu/root/mnt"
  for device in ${devices:-}; do
    mkdir -p "$(dirname "$qemu/root$device")"
    touch "$qemu/root$device"
    mount --bind "$device" "$qemu/root$device"
  done
  timeout "$patience" chroot "$qemu/root" qemu-system-x86_64 -nodefaults -no-reboot -display none \
    -accel "tcg,thread=${threads:-multi}" -cpu "${cpu:-max}" -serial file:/mnt/console "$@" 2> "$folder/qemu" || status=$?
  case $status in
    0) ;;
    124) tail -n 20 "$folder/console" >&2; die "the machine had not ended after $patience s; its console: $folder/console" ;;
    *) cat "$folder/qemu" >&2; die "QEMU ended with $status" ;;
  esac
}
