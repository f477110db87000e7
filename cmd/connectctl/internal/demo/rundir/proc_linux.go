package rundir

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

var errGone = errors.New("no such process")

// startTime is field 22 of /proc/PID/stat, clock ticks since boot. The name, field 2, may hold anything; it
// ends at the last parenthesis.
func startTime(pid int) (string, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat") //nolint:gosec // a number makes no path
	if err != nil {
		return "", errGone
	}
	i := bytes.LastIndexByte(b, ')')
	if i < 0 {
		return "", errGone
	}
	f := strings.Fields(string(b[i+1:]))
	if len(f) < 20 || f[0] == "Z" || f[0] == "X" {
		return "", errGone
	}
	return f[19], nil
}

// programs are the names a process of a run can have besides our own.
var programs = map[string]bool{"postgres": true, "initdb": true, "pg_ctl": true}

// within finds processes that work in dir though no record of them was written in time: those whose
// command line names a path below dir and that are PostgreSQL's programs or our own. An editor that has a
// file of dir open is not one of them.
func within(dir string) []Process {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var out []Process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		line, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err != nil || !bytes.Contains(line, []byte(dir+"/")) {
			continue
		}
		args := strings.Split(string(line), "\x00")
		if !programs[filepath.Base(args[0])] && !ours(args) {
			continue
		}
		if p, err := Identify(pid, filepath.Base(args[0])); err == nil {
			out = append(out, p)
		}
	}
	return out
}

// ours tells our own hidden children and workers by their command.
func ours(args []string) bool {
	return len(args) > 2 && (args[1] == "run" || args[1] == "demo" && strings.HasPrefix(args[2], "child-"))
}
