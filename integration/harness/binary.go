// Package harness runs the ordinary connectctl binary as a child process against real servers, for end-to-end tests: it
// builds the binary once, gives each stream its own database, slot, publication, topics and group, starts, stops and kills
// the worker, and reads from outside what it did. It uses no package of the product.
package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Build compiles connectctl into a new folder, which the caller removes, and returns the binary's path.
func Build(ctx context.Context) (binary string, err error) {
	dir, err := os.MkdirTemp("", "tidemark-connectctl-")
	if err != nil {
		return "", err
	}
	binary = filepath.Join(dir, "connectctl")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", binary, "github.com/tidemark-cdc/tidemark/cmd/connectctl")
	if out, err := cmd.CombinedOutput(); err != nil {
		_ = os.RemoveAll(dir)
		return "", fmt.Errorf("build connectctl: %w\n%s", err, out)
	}
	return binary, nil
}

// Remove removes what Build made.
func Remove(binary string) {
	if binary != "" {
		_ = os.RemoveAll(filepath.Dir(binary))
	}
}

// poll is how often conditions are looked at.
const poll = 5 * time.Millisecond

// Eventually waits until ok, at most the time given, and tells whether it came.
func Eventually(within time.Duration, ok func() bool) bool {
	for deadline := time.Now().Add(within); ; time.Sleep(poll) {
		if ok() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}
