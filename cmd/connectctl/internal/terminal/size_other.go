//go:build !linux && !darwin

package terminal

import "os"

// Size reports that f is no terminal to redraw lines on.
func Size(*os.File) (is bool, width int) { return false, 120 }
