//go:build tools

// Package kwok pins the version of kwok that the tests run against.
package kwok

import _ "sigs.k8s.io/kwok/cmd/kwok"
