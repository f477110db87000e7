//go:build !linux

package postgres

// rest does nothing where there is no short sleep.
func rest() {}
