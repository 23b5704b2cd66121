// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"testing"
)

func TestTheMemoryIsTheLeastLimitOfTheGroups(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"v2 in a container": {map[string]string{"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/memory.max": "1073741824\n"}, 1 << 30},
		"v2 without one":    {map[string]string{"/proc/self/cgroup": "0::/a\n", "/sys/fs/cgroup/a/memory.max": "max\n"}, 0},
		"v2, one above":     {map[string]string{"/proc/self/cgroup": "0::/pod/c\n", "/sys/fs/cgroup/pod/c/memory.max": "300\n", "/sys/fs/cgroup/pod/memory.max": "200\n"}, 200},
		"v1 in a container": {map[string]string{"/proc/self/cgroup": "5:cpu,cpuacct:/x\n4:memory:/kubepods/pod1/c\n", "/sys/fs/cgroup/memory/memory.limit_in_bytes": "268435456\n"}, 256 << 20},
		"v1 without one":    {map[string]string{"/proc/self/cgroup": "4:memory:/\n", "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 0},
		"no groups":         {nil, 0},
	} {
		read := func(path string) ([]byte, error) {
			if text, there := c.files[path]; there {
				return []byte(text), nil
			}
			return nil, os.ErrNotExist
		}
		if got := memoryOfGroup(read); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
