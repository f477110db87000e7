package env

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-cdc/tidemark/integration/env/port"
)

var servers *Env

func TestMain(m *testing.M) { Main(m, &servers) }

func version(t *testing.T, url string) string {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	var v string
	if err := c.QueryRow(t.Context(), "SELECT version()").Scan(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func alone(t *testing.T) *Env {
	t.Helper()
	e, err := Start(t.Context(), Options{TempDir: shortTemp(t), Alone: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// shortTemp is a folder that every user may enter and whose name leaves room for a socket's.
func shortTemp(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "t")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func TestTwoRunsSideBySide(t *testing.T) {
	t.Parallel()
	a, b := alone(t), alone(t)
	pa, pb := a.Postgres(t, 18), b.Postgres(t, 18)
	if pa.Port() == pb.Port() || pa.Dir == pb.Dir {
		t.Fatalf("both runs have %d in %s", pa.Port(), pa.Dir)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(a.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the closed run's folder: %v", err)
	}
	if c, err := net.Dial("tcp", pa.addr(0)); err == nil {
		c.Close()
		t.Error("the closed run's server still listens")
	}
	version(t, pb.URL("postgres"))
	joined, err := join(b.File())
	if err != nil {
		t.Fatal(err)
	}
	if p := joined.Postgres(t, 18); p.URL("x") != pb.URL("x") || p.SocketURL("x") != pb.SocketURL("x") {
		t.Errorf("joined run has %s, its owner %s", p.URL("x"), pb.URL("x"))
	}
	if err := joined.Close(); err != nil {
		t.Fatal(err)
	}
	version(t, pb.URL("postgres"))
}

// firstTaken offers a port that is taken at the nth call, free ones else.
func firstTaken(t *testing.T, n int) func() (int, error) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	calls := 0
	return func() (int, error) {
		if calls++; calls == n {
			return l.Addr().(*net.TCPAddr).Port, nil
		}
		return port.Free()
	}
}

func TestTakenPortIsChosenAgain(t *testing.T) {
	t.Parallel()
	e := alone(t)
	e.ports = firstTaken(t, 1)
	version(t, e.Postgres(t, 14).URL("postgres"))
}

func TestMissingToolsAreListedTogether(t *testing.T) {
	bin := t.TempDir()
	for _, tool := range []string{"bash", "cat", "rm", "tr", "grep", "sed", "head", "seq", "sleep", "id", "dirname", "uname", "sort", "readlink", "mkdir", "env"} {
		path, err := exec.LookPath(tool)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(bin, tool)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin)
	_, err := Start(t.Context(), Options{TempDir: shortTemp(t), Alone: true})
	if err == nil {
		t.Fatal("no error without any tool")
	}
	for _, want := range []string{"mvn", "python3", "xz", "curl", "setpriv", "C compiler", "make deps"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
}

const childVariable = "TIDEMARK_ENV_TEST_CHILD"

// TestChild is the process TestServersEndWithTheirOwner starts: it begins a run with one server and ends badly.
func TestChild(t *testing.T) {
	how, dir, ok := strings.Cut(os.Getenv(childVariable), ":")
	if !ok {
		t.Skip("runs as a child only")
	}
	e, err := Start(t.Context(), Options{TempDir: dir, Alone: true})
	if err != nil {
		t.Fatal(err)
	}
	p := e.NewPostgres(t, 18, PostgresOptions{})
	fmt.Printf("child:%s:%s\n", e.Dir(), p.addr(0))
	switch how {
	case "panic":
		panic("as asked")
	case "reaper killed too":
		_ = e.owner.cmd.Process.Kill()
		_ = e.owner.cmd.Wait()
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
}

func TestServersEndWithTheirOwner(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"panic", "killed", "reaper killed too"} {
		t.Run(how, func(t *testing.T) {
			temp := shortTemp(t)
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChild$")
			cmd.Env = append(os.Environ(), childVariable+"="+how+":"+temp)
			out, err := cmd.Output()
			if err == nil {
				t.Fatalf("the child ended well: %s", out)
			}
			var dir, addr string
			for s := bufio.NewScanner(strings.NewReader(string(out))); s.Scan(); {
				if rest, ok := strings.CutPrefix(s.Text(), "child:"); ok {
					dir, addr, _ = strings.Cut(rest, ":")
				}
			}
			if dir == "" {
				t.Fatalf("the child did not come up: %s", out)
			}
			if how == "reaper killed too" {
				c, err := net.Dial("tcp", addr)
				if err != nil {
					t.Fatalf("the orphan should still run: %v", err)
				}
				_ = c.Close()
				next, err := Start(t.Context(), Options{TempDir: temp, Alone: true})
				if err != nil {
					t.Fatal(err)
				}
				defer next.Close()
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if err := waitFor(ctx, "the run's folder to go", func() bool { _, err := os.Stat(dir); return errors.Is(err, os.ErrNotExist) }); err != nil {
				t.Fatal(err)
			}
			if c, err := net.Dial("tcp", addr); err == nil {
				_ = c.Close()
				t.Error("the server still listens")
			}
		})
	}
}
