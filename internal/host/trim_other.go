//go:build !linux

package host

// TrimStart does nothing where a process cannot give back its program's pages.
func TrimStart() error { return nil }
