// SPDX-License-Identifier: Apache-2.0

package main

// This file answers: which authorities sign certificates of servers on the internet, such as those of AWS? The operator's image has no list of
// them: Mozilla's is linked, and used where the system has none.

import _ "golang.org/x/crypto/x509roots/fallback"
