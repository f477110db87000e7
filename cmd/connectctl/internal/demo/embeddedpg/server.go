//go:build linux || darwin

package embeddedpg

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tidemark-cdc/tidemark/cmd/connectctl/internal/demo/rundir"
)

// nobody is the unprivileged user and group that root's server runs as.
const nobody = 65534

// Config says where the server comes from and where it lives.
type Config struct {
	Run     *rundir.Dir
	Cache   string   // folder for fetched programs, kept between runs
	Archive string   // a .txz or .jar to take instead of the network; may be empty
	Command []string // the hidden command of our own program that calls Child
	Say     func(format string, args ...any)
}

// Server is a running PostgreSQL.
type Server struct {
	Port     int
	Socket   string // directory of its Unix socket
	Password string
	Data     string
	process  rundir.Process
}

// Start fetches the programs if needed and starts a server. What it started before an error is stopped.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	if err := Supported(runtime.GOOS, runtime.GOARCH); err != nil {
		return nil, err
	}
	root := os.Geteuid() == 0
	if root && runtime.GOOS != "linux" {
		return nil, errors.New("PostgreSQL refuses to run as root: start the demo as another user, or use --postgres-url")
	}
	home := cfg.Run.Join("pg")
	t := task{
		Data: filepath.Join(home, "data"), Runtime: filepath.Join(home, "runtime"),
		Cache: filepath.Join(cfg.Cache, "postgres"), Password: rand.Text(), Parameters: parameters(home),
	}
	if err := errors.Join(rundir.CheckCharacters(home), rundir.CheckSocket(filepath.Join(home, ".s.PGSQL.65535"))); err != nil {
		return nil, err
	}
	if err := prepare(&t, home, cfg.Archive, root); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(t.Binaries, completeName)); err != nil {
		// One run fetches and unpacks; another one that starts meanwhile waits for it.
		lock, err := rundir.Lock(t.Cache + ".lock")
		if err != nil {
			return nil, fmt.Errorf("lock the folder of PostgreSQL's programs: %w", err)
		}
		defer lock.Close()
		if _, err := os.Stat(filepath.Join(t.Cache, archiveName())); err != nil {
			cfg.Say("fetching PostgreSQL %s, once (about 15 MB)", Version)
		}
	}
	return start(ctx, cfg, t, home, root)
}

// prepare makes the folders, gives them to the server's user, and decides which programs to use.
func prepare(t *task, home, archive string, root bool) error {
	version := string(Version)
	var txz []byte
	if archive != "" {
		var err error
		if txz, version, err = readArchive(archive); err != nil {
			return err
		}
		t.Cache, t.Offline = filepath.Join(t.Cache, version), true
	}
	t.Binaries = filepath.Join(t.Cache, platform()+"-"+version)
	for _, dir := range []string{t.Cache, home} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make a folder for PostgreSQL: %w", err)
		}
	}
	if txz != nil {
		if err := place(t.Cache, txz); err != nil {
			return err
		}
	}
	if !root {
		return os.Chmod(home, 0o700)
	}
	for _, dir := range []string{t.Cache, home} {
		if err := rundir.CheckReachable(dir); err != nil {
			return err
		}
		if err := os.Chown(dir, nobody, nobody); err != nil {
			return fmt.Errorf("give %s to the unprivileged user PostgreSQL runs as: %w: use --postgres-url", dir, err)
		}
	}
	return os.Chmod(home, 0o700)
}

// parameters suit a demo: nothing of it outlives the run, so nothing waits for the disk. Commits stay
// synchronous, since a walsender sends only what was flushed.
func parameters(socket string) map[string]string {
	return map[string]string{
		"wal_level": "logical", "max_wal_senders": "10", "max_replication_slots": "10",
		"unix_socket_directories": socket, "fsync": "off", "full_page_writes": "off", "synchronous_commit": "on",
		"shared_buffers": "64MB", "max_wal_size": "256MB", "timezone": "UTC", "log_timezone": "UTC",
	}
}

// start runs the child until a port was free at the moment the server bound it.
func start(ctx context.Context, cfg Config, t task, home string, root bool) (*Server, error) {
	for try := 1; ; try++ {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		t.Port = uint32(port)
		err = runChild(ctx, cfg, t, home, root)
		s := &Server{Port: port, Socket: home, Password: t.Password, Data: t.Data}
		if err == nil {
			err = s.adopt(cfg.Run)
		}
		if err == nil {
			return s, nil
		}
		if _, stopErr := rundir.StopAll(cfg.Run.Path); stopErr != nil {
			return nil, errors.Join(err, stopErr)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if try == 5 || !portTaken(err) {
			return nil, explain(err, t)
		}
	}
}

func (s *Server) adopt(run *rundir.Dir) error {
	pid, err := rundir.PostmasterPID(s.Data)
	if err != nil {
		return err
	}
	if s.process, err = rundir.Identify(pid, "postgres"); err != nil {
		return err
	}
	return run.Record(s.process)
}

// PID is the postmaster's.
func (s *Server) PID() int { return s.process.PID }

// Stop shuts the server down: fast, then at once, then by force. It takes at most 6 s.
func (s *Server) Stop() error {
	return s.process.Stop(2*time.Second, syscall.SIGINT, syscall.SIGQUIT)
}

func runChild(ctx context.Context, cfg Config, t task, home string, root bool) error {
	input, err := json.Marshal(t) //nolint:gosec // the password goes through a pipe to our own child
	if err != nil {
		return err
	}
	path, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find our own program: %w", err)
	}
	cmd := exec.CommandContext(ctx, path, append(slices.Clone(cfg.Command), home)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	cmd.Stdin, cmd.Dir, cmd.Env = bytes.NewReader(input), "/", childEnv(t, home)
	var said bytes.Buffer
	cmd.Stderr = &said
	if root {
		self, err := executable(home)
		if err != nil {
			return err
		}
		defer self.Close()
		cmd.Path, cmd.ExtraFiles = "/proc/self/fd/3", []*os.File{self}
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody, NoSetGroups: false}
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("run a child of our own program: %w", err)
	}
	if p, err := rundir.Identify(cmd.Process.Pid, filepath.Base(path)); err == nil {
		if err := cfg.Run.Record(p); err != nil {
			return errors.Join(err, cmd.Cancel(), cmd.Wait())
		}
	}
	if err := cmd.Wait(); err != nil {
		if text := strings.TrimSpace(said.String()); text != "" {
			return errors.New(strings.TrimPrefix(text, "connectctl: "))
		}
		return fmt.Errorf("a child of our own program ended: %w", err)
	}
	return nil
}

// executable opens our own program so that the unprivileged user may execute what the descriptor shows:
// a copy, where only root may execute the file itself. The copy's name is gone at once.
func executable(home string) (*os.File, error) {
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		return nil, fmt.Errorf("open our own program: %w", err)
	}
	st, err := f.Stat()
	if err == nil && st.Mode().Perm()&0o001 != 0 {
		return f, nil
	}
	defer f.Close()
	path := filepath.Join(home, "connectctl")
	to, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err == nil {
		_, err = io.Copy(to, f)
		err = errors.Join(err, to.Chmod(0o755), to.Close())
	}
	if err == nil {
		f2, openErr := os.Open(path)
		if err = errors.Join(openErr, os.Remove(path)); err == nil {
			return f2, nil
		}
	}
	return nil, fmt.Errorf("copy our own program: %w", err)
}

// childEnv keeps what fetching needs and nothing that would change the server. PG* variables would.
func childEnv(t task, home string) []string {
	env := []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C", "TZ=UTC", "HOME=" + home, "TMPDIR=" + home}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR"} {
		if v, ok := os.LookupEnv(name); ok && !t.Offline {
			env = append(env, name+"="+v)
		}
	}
	return env
}

func portTaken(err error) bool {
	for _, s := range []string{"already listening on port", "could not bind", "could not create any TCP/IP sockets", "Address already in use"} {
		if strings.Contains(err.Error(), s) {
			return true
		}
	}
	return false
}

// explain adds the way out to what the library says.
func explain(err error, t task) error {
	text := err.Error()
	if _, cause, ok := strings.Cut(text, "unable to extract postgres archive"); ok {
		if i := strings.LastIndex(cause, ", "); i >= 0 {
			cause = cause[i+2:]
		}
		return fmt.Errorf("the PostgreSQL archive %s cannot be unpacked: %s: remove it, or give another with --postgres-archive", filepath.Join(t.Cache, archiveName()), cause)
	}
	switch {
	case strings.Contains(text, "unable to connect to "), strings.Contains(text, "no version found"), strings.Contains(text, "download"), strings.Contains(text, "error fetching postgres"):
		if t.Offline {
			return fmt.Errorf("the PostgreSQL archive does not fit this machine (%s): %w", platform(), err)
		}
		return fmt.Errorf("fetch PostgreSQL %s for %s: %w: give an archive with --postgres-archive, or a server with --postgres-url", Version, platform(), err)
	case strings.Contains(text, "permission denied") && os.Geteuid() == 0, strings.Contains(text, "operation not permitted"):
		return fmt.Errorf("start PostgreSQL as an unprivileged user: %w: start the demo as another user than root, or use --postgres-url", err)
	}
	if strings.Contains(text, "could not look up effective user ID") {
		uid := os.Geteuid()
		if uid == 0 {
			uid = nobody
		}
		return fmt.Errorf("PostgreSQL runs as a user that has a name, and user id %d has none in /etc/passwd: add it there, or use --postgres-url", uid)
	}
	return fmt.Errorf("start PostgreSQL: %s", strings.ReplaceAll(strings.TrimSpace(text), "\n", "; "))
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		return 0, fmt.Errorf("look for a free port: %w", err)
	}
	_, text, err := net.SplitHostPort(l.Addr().String())
	if err = errors.Join(err, l.Close()); err != nil {
		return 0, fmt.Errorf("look for a free port: %w", err)
	}
	return strconv.Atoi(text)
}
