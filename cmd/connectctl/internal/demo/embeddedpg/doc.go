// Package embeddedpg runs a real PostgreSQL below a run directory, with programs fetched once by
// fergusstrange/embedded-postgres from its own default source, or taken from an archive on disk.
//
// PostgreSQL refuses to run as root. The library has no option for another user, so its calls run in a
// hidden child of our own program, which for root is executed as an unprivileged user through an inherited
// file descriptor: `go run` builds into a folder that user may not enter. The child ends once the server
// is up; the postmaster has a session of its own, so Ctrl-C does not reach it, and is stopped by pid.
package embeddedpg
