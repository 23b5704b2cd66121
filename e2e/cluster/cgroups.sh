# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Which cgroups does the node use, and how are they mounted and removed? Sourced. The machine has either v1 hierarchies, which
# may be mounted once more anywhere, or the one of v2, of which the node has a subtree: where systemd runs, one that systemd
# delegates to it. Needs settings.sh.

# The cgroup version with controllers on this machine: 1 or 2; nothing if there is neither.
cgroup_version() {
  if grep -q '^[1-9][0-9]*:.*memory' /proc/self/cgroup; then
    echo 1
  elif [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    echo 2
  fi
}

## v1

# Prints CONTROLLERS:PATH for each v1 hierarchy, PATH being where the caller is in it. Hugetlb is added where no hierarchy
# holds it yet: the kubelet needs it, and mounting it makes the hierarchy (in the initial cgroup namespace only).
cgroup_hierarchies() {
  sed -n -e 's|^[1-9][0-9]*:\(..*\):/$|\1:|p' -e t -e 's|^[1-9][0-9]*:\(..*\):\(/.*\)$|\1:\2|p' /proc/self/cgroup
  grep -q '^[1-9][0-9]*:.*hugetlb' /proc/self/cgroup || echo hugetlb:
}

# cgroup_mount DIR CONTROLLERS: mounts the hierarchy at DIR/CONTROLLERS (a named one, without controllers, at DIR/NAME).
cgroup_mount() {
  local options=$2
  case $2 in name=*) options=none,$2 ;; esac
  mkdir -p "$1/${2#name=}"
  mount -t cgroup -o "$options" cgroup "$1/${2#name=}"
}

## v2

# What pods are limited by. Systemd delegates all of these but hugetlb, of which it knows nothing and which it leaves alone.
cgroup_controllers=(cpuset cpu io memory pids hugetlb)

# The command before one that is to run in the node's cgroup, a word a line: systemd makes and removes that. Without systemd
# the node makes its own.
cgroup_scope() {
  [ -d /run/systemd/system ] || return 0
  # shellcheck disable=SC2154 # of settings.sh
  printf '%s\n' systemd-run --scope --quiet --collect --slice=-.slice --unit="$cgroup" --property=Delegate=yes
}

# Prints where the caller's cgroup is, below /sys/fs/cgroup.
cgroup_path() { sed -n 's|^0::||p' /proc/self/cgroup; }

# cgroup_hand_down DIR: children of DIR may be limited by all of the controllers. Prints those of which this was not so.
cgroup_hand_down() {
  local controller
  for controller in "${cgroup_controllers[@]}"; do
    grep -qw "$controller" "$1/cgroup.controllers" || die "the kernel has no cgroup controller $controller, or it is not handed down to $1"
    ! grep -qw "$controller" "$1/cgroup.subtree_control" || continue
    echo "$controller"
    echo "+$controller" > "$1/cgroup.subtree_control" ||
      die "children of $1 cannot be limited by $controller: it has processes itself (in a container without systemd: give it one)"
  done
}
