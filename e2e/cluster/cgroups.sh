# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Which cgroup v1 hierarchies does the node use, and how is one mounted? Sourced.

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
