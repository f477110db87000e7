package postgres

import "syscall"

// rest waits a little. Not time.Sleep: an idle Go process rounds it up to a millisecond, in which the
// server would fill the socket's buffer and stand still.
func rest() {
	_ = syscall.Nanosleep(&syscall.Timespec{Nsec: 50_000}, nil) // about 100 µs with the kernel's timer slack
}
