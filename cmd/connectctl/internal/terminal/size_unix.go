//go:build linux || darwin

package terminal

import (
	"os"
	"strconv"
	"syscall"
	"unsafe"
)

// Size reports whether f is a terminal that understands a redrawn line, and how wide it is.
func Size(f *os.File) (is bool, width int) {
	var size struct{ rows, columns, x, y uint16 }
	_, _, failed := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&size))) //nolint:gosec // the ioctl fills four 16-bit numbers
	is, width = failed == 0 && os.Getenv("TERM") != "dumb", int(size.columns)
	if width == 0 {
		width, _ = strconv.Atoi(os.Getenv("COLUMNS"))
	}
	if width == 0 {
		width = 120
	}
	return is, width
}
