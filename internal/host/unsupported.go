//go:build !linux && !darwin

package host

// This line does not compile on purpose: permd runs on Linux and macOS.
const _ = permdRunsOnLinuxAndMacOSOnly
