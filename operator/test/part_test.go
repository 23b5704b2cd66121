// SPDX-License-Identifier: Apache-2.0

package test

// This file answers: which tests does one of several processes run?

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// partVariable chooses a part of the tests: "2/3" is the second of three. Each process has an API server and an operator of its own.
const partVariable = "SPATE_TEST_PART"

// part is the number of this process among those that share the tests, from 0.
var part int

// takePart restricts the tests of this process to its part, unless -run chooses them.
func takePart() error {
	chosen := os.Getenv(partVariable)
	if chosen == "" {
		return nil
	}
	var number, parts int
	if n, err := fmt.Sscanf(chosen, "%d/%d", &number, &parts); n != 2 || err != nil || number < 1 || number > parts {
		return fmt.Errorf("%s=%s is not such as 1/2", partVariable, chosen)
	}
	part = number - 1
	if flag.Lookup("test.run").Value.String() != "" {
		return nil
	}
	list := exec.Command(os.Args[0], "-test.list=.")
	list.Env = append(os.Environ(), partVariable+"=")
	names, err := list.Output()
	if err != nil {
		return fmt.Errorf("list the tests: %w", err)
	}
	var own []string
	for i, name := range bytes.Fields(names) {
		if i%parts == part {
			own = append(own, string(name))
		}
	}
	return flag.Set("test.run", "^("+strings.Join(own, "|")+")$")
}
