// Package rundir gives each run of the demo a directory of its own and makes sure that nothing
// outlives it: processes are recorded by pid and start time, and whatever a killed run left behind is
// found, stopped and removed by the next one.
//
// A run is alive as long as somebody holds the flock on its file "lock"; the kernel drops it with the
// process, however that ends. The file "processes" has one line per process the run started:
// pid, start time as the kernel tells it, name. A pid alone is never trusted: it is reused.
package rundir
