package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	ticks     = 100 // of CPU time a second in /proc: USER_HZ, fixed on Linux
	pauseTime = 10 * time.Millisecond
)

// usage is what a process took.
type usage struct {
	cpu     float64 // seconds, user and system
	peakMiB int64   // highest resident set
}

// usageOf reads a process's usage from /proc (proc_pid_stat(5), proc_pid_status(5)); false when it is gone.
func usageOf(pid int) (u usage, ok bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return u, false
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // from field 3, state, on
	if len(fields) < 13 || fields[0] == "Z" {
		return u, false
	}
	for _, f := range fields[11:13] { // utime, stime
		n, _ := strconv.ParseInt(f, 10, 64)
		u.cpu += float64(n) / ticks
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return u, false
	}
	for line := range strings.SplitSeq(string(status), "\n") {
		if rest, found := strings.CutPrefix(line, "VmHWM:"); found {
			kib, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			u.peakMiB = (kib + 1023) >> 10
			return u, true
		}
	}
	return u, false
}

// follow reads a process's usage again and again, since some end before one could ask; the returned function gives the last
// there was, less what it was at first where it ran before.
func follow(ctx context.Context, pid func() int, ranBefore bool) (last func() usage) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan usage)
	go func() {
		var first, u usage
		p := pid()
		if ranBefore {
			first, _ = usageOf(p)
		}
		for {
			if now, ok := usageOf(p); ok {
				u = now
			}
			if ctx.Err() != nil {
				u.cpu -= first.cpu
				done <- u
				return
			}
			pause(ctx)
		}
	}()
	return func() usage { cancel(); return <-done }
}

func pause(ctx context.Context) {
	select {
	case <-time.After(pauseTime):
	case <-ctx.Done():
	}
}

func readPid(file string) (int, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(b)))
}
