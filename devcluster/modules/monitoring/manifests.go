//go:build manifests

package main

// The module has the custom resource definitions that tests validate against.
import _ "github.com/prometheus-operator/prometheus-operator/pkg/versionutil"
