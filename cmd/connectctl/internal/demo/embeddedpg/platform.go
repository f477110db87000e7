package embeddedpg

import (
	"fmt"
	"os"
	"runtime"

	embedded "github.com/fergusstrange/embedded-postgres"
)

// Version is the PostgreSQL that is fetched.
const Version = embedded.V18

// Supported says in one sentence why there is no PostgreSQL to fetch for a platform; nil where there is.
func Supported(goos, goarch string) error {
	if (goos == "linux" || goos == "darwin") && (goarch == "amd64" || goarch == "arm64") {
		return nil
	}
	return fmt.Errorf("there is no PostgreSQL to fetch for %s/%s: give the demo a server with --postgres-url", goos, goarch)
}

// platform is the library's name for this machine, which is part of its archives' names.
func platform() string {
	arch := runtime.GOARCH
	if arch == "arm64" {
		arch += "v8"
	}
	if _, err := os.Stat("/etc/alpine-release"); err == nil && runtime.GOOS == "linux" {
		arch += "-alpine"
	}
	return runtime.GOOS + "-" + arch
}

// User is the superuser of the server.
const User = "postgres"

// archiveName is the file name under which the library keeps the programs of Version.
func archiveName() string {
	return fmt.Sprintf("embedded-postgres-binaries-%s-%s.txz", platform(), Version)
}
