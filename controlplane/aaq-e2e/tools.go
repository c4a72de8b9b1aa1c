//go:build tools

// Package aaqe2e pins the version of AAQ whose end-to-end tests are run against Bursar.
package aaqe2e

import _ "kubevirt.io/application-aware-quota/tests"
