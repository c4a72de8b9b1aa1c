//go:build tools

// Package helm pins the version of helm that the tests run against.
package helm

import _ "helm.sh/helm/v4/cmd/helm"
