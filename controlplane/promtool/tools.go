//go:build tools

// Package promtool pins the version of Prometheus whose rule engine the tests run.
package promtool

import _ "github.com/prometheus/prometheus/cmd/promtool"
