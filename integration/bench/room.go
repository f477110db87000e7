package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

const (
	serversBytes  = 1 << 30    // on disk, of empty servers and what they may have to fetch
	serversMemory = 1500 << 20 // of PostgreSQL, broker, registry and the bench
	peerMemory    = 2500 << 20 // of Kafka Connect besides
)

// checkRoom says what this machine lacks of disk and memory before anything is started.
func checkRoom(data, memory int64) error {
	dir := os.TempDir()
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return fmt.Errorf("look for room in %s: %w", dir, err)
	}
	free, needed := int64(fs.Bavail)*fs.Bsize, serversBytes+data
	var errs []error
	if free < needed {
		errs = append(errs, fmt.Errorf("no room: the bench needs %s in %s, which has %s: set TMPDIR to a folder with more, or measure fewer ROWS", gib(needed), dir, gib(free)))
	}
	if has, ok := availableMemory(); ok && has < serversMemory+memory {
		errs = append(errs, fmt.Errorf("no room: the bench needs %s of memory, %s are available: end other programs first", gib(serversMemory+memory), gib(has)))
	}
	return errors.Join(errs...)
}

func gib(n int64) string { return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30)) }

// availableMemory reads MemAvailable (proc_meminfo(5)).
func availableMemory() (n int64, ok bool) {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, false
	}
	for in := bufio.NewScanner(bytes.NewReader(b)); in.Scan(); {
		if rest, found := strings.CutPrefix(in.Text(), "MemAvailable:"); found {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kib << 10, err == nil
		}
	}
	return 0, false
}
