package rundir

import (
	"errors"
	"os/exec"
	"strconv"
	"strings"
)

var errGone = errors.New("no such process")

// startTime asks ps, to the second.
func startTime(pid int) (string, error) {
	out, err := exec.Command("ps", "-o", "state=,lstart=", "-p", strconv.Itoa(pid)).Output()
	f := strings.Fields(string(out))
	if err != nil || len(f) < 2 || strings.HasPrefix(f[0], "Z") {
		return "", errGone
	}
	return strings.Join(f[1:], " "), nil
}

// within knows no way to look at other processes here; the records have to do.
func within(string) []Process { return nil }
