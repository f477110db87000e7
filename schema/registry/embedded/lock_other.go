//go:build !unix

package embedded

import (
	"fmt"
	"os"
	"runtime"
)

func lockDir(string) (*os.File, error) {
	return nil, fmt.Errorf("the embedded schema registry is not supported on %s: set schema.registry.url to a registry of your own", runtime.GOOS)
}
