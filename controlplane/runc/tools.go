//go:build tools

// Package runc pins the program that starts containers on the real node.
package runc

import _ "github.com/opencontainers/runc"
