//go:build linux || darwin

package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-cdc/tidemark/cmd/connectctl/internal/demo/broker"
	"github.com/tidemark-cdc/tidemark/cmd/connectctl/internal/demo/embeddedpg"
	"github.com/tidemark-cdc/tidemark/cmd/connectctl/internal/demo/rundir"
	"github.com/tidemark-cdc/tidemark/cmd/connectctl/internal/demo/shop"
	"github.com/tidemark-cdc/tidemark/cmd/connectctl/internal/demo/watch"
	"github.com/tidemark-cdc/tidemark/schema/registry"
	"github.com/tidemark-cdc/tidemark/schema/registry/embedded"
)

// Free space needed: PostgreSQL's programs and data, its log while the second slot holds it, Kafka's logs.
const (
	spaceOwnServers = 1 << 30
	spaceRemote     = 64 << 20
)

// session is one run and all it has started.
type session struct {
	opt     Options
	screen  *watch.Screen
	cache   string // the demo's part of it
	run     *rundir.Dir
	reaper  *exec.Cmd
	leash   *os.File // our end of the reaper's pipe; it closes with us
	db      database
	topics  topics
	made    leftovers
	foreign bool // something may have been made on servers that are not our own
	pg      *embeddedpg.Server
	ownPG   bool
	broker  *broker.Broker
	schemas *embedded.Registry

	mu     sync.Mutex // guards worker: a signal may stop it while it is being replaced
	worker *worker
}

// open makes everything the traffic needs. close undoes what was made, also after an error of open.
func (s *session) open(ctx context.Context) error {
	if err := s.openRun(); err != nil {
		return err
	}
	s.names()
	s.passing("run directory")
	if err := s.openDatabase(ctx); err != nil {
		return err
	}
	if err := s.openKafka(ctx); err != nil {
		return err
	}
	conn, err := s.db.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := s.db.check(ctx, conn); err != nil {
		return err
	}
	if !s.made.empty() {
		if err := s.made.write(s.run.Path); err != nil {
			return err
		}
		s.foreign = true
	}
	if err := s.db.install(ctx, conn); err != nil {
		return err
	}
	return configure(s.run, &s.db, &s.topics)
}

func (s *session) openRun() error {
	cache, err := rundir.Cache(s.opt.Cache)
	if err != nil {
		return err
	}
	s.cache = filepath.Join(cache, "demo")
	need := uint64(spaceOwnServers)
	if s.opt.PostgresURL != "" && s.opt.Bootstrap != "" {
		need = spaceRemote
	}
	if err := rundir.CheckSpace(s.cache, need); err != nil {
		return err
	}
	runs := filepath.Join(s.cache, "runs")
	swept, err := rundir.Sweep(runs, func(path string) error {
		if names, err := removeLeftovers(path); err != nil {
			// Not this run's servers: they may be gone for good, and must not keep this run from its work.
			s.screen.Say("an earlier run that was killed may have left something on other servers (%s), which could not be removed: %v", names, err)
		}
		return nil
	})
	for _, old := range swept {
		s.screen.Say("cleaned up after an earlier run that was killed: stopped %d processes, removed %s", len(old.Stopped), old.Path)
	}
	if err != nil {
		return err
	}
	if s.run, err = rundir.Create(runs); err != nil {
		return err
	}
	return s.startReaper()
}

// names are short where the servers are our own, and nobody else's where they are not.
func (s *session) names() {
	id := strings.ToLower(rand.Text()[:8])
	s.db.shop, s.db.publication, s.db.slot, s.db.judgeSlot = shop.Shop{Schema: "shop"}, "demo", "demo", "demo_judge"
	if s.opt.PostgresURL != "" {
		base := "tidemark_demo_" + id
		s.db.shop, s.db.publication, s.db.slot, s.db.judgeSlot = shop.Shop{Schema: base}, base, base, base+"_judge"
	}
	s.topics.prefix = "demo"
	if s.opt.Bootstrap != "" || s.opt.RegistryURL != "" {
		s.topics.prefix = "tidemark-demo-" + id
	}
	s.topics.offsets = s.topics.prefix + "-offsets"
}

func (s *session) openDatabase(ctx context.Context) error {
	var err error
	if s.opt.PostgresURL != "" {
		s.db.config, s.db.tls, err = parseDatabase(s.opt.PostgresURL)
		s.made.PostgresURL, s.made.Schema, s.made.Publication = s.opt.PostgresURL, s.db.shop.Schema, s.db.publication
		s.made.Slots = []string{s.db.slot, s.db.judgeSlot}
		return err
	}
	s.pg, err = embeddedpg.Start(ctx, embeddedpg.Config{Run: s.run, Cache: s.cache, Archive: s.opt.PostgresArchive, Command: []string{"demo", PostgresChild}, Say: s.screen.Say})
	if err != nil {
		return err
	}
	s.ownPG = true
	if s.db.config, err = pgx.ParseConfig(fmt.Sprintf("host='%s' port=%d user=%s dbname=postgres sslmode=disable", s.pg.Socket, s.pg.Port, embeddedpg.User)); err != nil {
		return fmt.Errorf("prepare the connection to PostgreSQL: %w", err)
	}
	s.db.config.Password, s.db.tls = s.pg.Password, map[string]string{"sslmode": "disable"}
	s.screen.Say("PostgreSQL %s runs (pid %d, port %d)", embeddedpg.Version, s.pg.PID(), s.pg.Port)
	return nil
}

func (s *session) openKafka(ctx context.Context) error {
	var err error
	if s.opt.Bootstrap != "" {
		for _, a := range strings.Split(s.opt.Bootstrap, ",") {
			if a = strings.TrimSpace(a); a != "" {
				s.topics.seeds = append(s.topics.seeds, a)
			}
		}
		s.made.Bootstrap, s.made.Prefix, s.made.Offsets = s.topics.seeds, s.topics.prefix, s.topics.offsets
		if err = s.topics.check(ctx); err != nil {
			return err
		}
	} else {
		if s.broker, err = broker.Start(s.run.Join("kafka")); err != nil {
			return err
		}
		s.topics.seeds = []string{s.broker.Addr}
		s.screen.Say("Kafka, embedded, listens on %s", s.broker.Addr)
	}
	if s.opt.RegistryURL != "" {
		s.topics.registry = s.opt.RegistryURL
		s.made.RegistryURL, s.made.Prefix = s.opt.RegistryURL, s.topics.prefix
		return s.checkRegistry(ctx)
	}
	if s.schemas, err = embedded.Open(s.run.Join("registry"), embedded.Options{}); err != nil {
		return err
	}
	if s.topics.registry, err = s.schemas.Serve("127.0.0.1:0"); err != nil {
		return err
	}
	s.screen.Say("schema registry, embedded, listens on %s", s.topics.registry)
	return nil
}

func (s *session) checkRegistry(ctx context.Context) error {
	c, err := registry.New(registry.Config{URLs: []string{s.topics.registry}})
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Check(ctx)
}

// close stops and removes everything, in the opposite order, within 10 s.
func (s *session) close() error {
	if s.run == nil {
		return nil
	}
	var errs []error
	if w := s.current(); w != nil {
		errs = append(errs, w.kill())
	}
	if s.foreign {
		errs = append(errs, s.made.remove())
	}
	if s.broker != nil {
		errs = append(errs, s.broker.Close())
	}
	if s.schemas != nil {
		errs = append(errs, s.schemas.Close())
	}
	if s.pg != nil {
		errs = append(errs, s.pg.Stop())
	}
	if _, err := rundir.StopAll(s.run.Path); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, s.run.Remove())
	if s.reaper != nil {
		errs = append(errs, s.leash.Close(), s.reaper.Wait()) // it finds nothing left and ends
	}
	return errors.Join(errs...)
}

// passing tells a test where the run is.
func (s *session) passing(place string) {
	if s.opt.passing != nil {
		s.opt.passing(place)
	}
}

func (s *session) current() *worker {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.worker
}

func (s *session) startWorker() (*worker, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, err := startWorker(s.run, &s.db)
	if err == nil {
		s.worker = w
	}
	return w, err
}

// startReaper runs a child that waits for the end of its standard input, which comes with our own end,
// whatever that is, and then clears the run directory away. It ignores the terminal's signals.
func (s *session) startReaper() error {
	path, err := self()
	if err != nil {
		return err
	}
	s.reaper = exec.Command(path, "demo", ReaperChild, s.run.Path)
	s.reaper.Args[0] = "connectctl"
	s.reaper.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("start the reaper: %w", err)
	}
	defer r.Close()
	s.reaper.Stdin = r
	if err := s.reaper.Start(); err != nil {
		s.reaper = nil
		return errors.Join(fmt.Errorf("start the reaper: %w", err), w.Close())
	}
	s.leash = w
	return nil
}

// Reap is the reaper: it waits for the end of in, then stops and removes the run if nobody has.
func Reap(in *os.File, run string) error {
	var b [1]byte
	for {
		if n, err := in.Read(b[:]); n == 0 || err != nil {
			break
		}
	}
	return rundir.SweepRun(run, 10*time.Second, func(path string) error {
		_, err := removeLeftovers(path)
		return err // the directory stays, and the next run tries again
	})
}
