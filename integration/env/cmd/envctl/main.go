// Command envctl starts the servers of integration/env for a command, or until it is told to end.
//
//	envctl run [-postgres 14,18] [-kafka] [-registry] -- go test ./integration/...
//	envctl up  [-postgres 14,18] [-kafka] [-registry]
//	envctl vars [-postgres 14,18] [-kafka] [-registry]
//	envctl fetch
//
// The command finds the run through TIDEMARK_ENV and shares its servers with every process it starts; what was not
// asked for by a flag starts on first use. vars, below run, starts what the flags name in that run and prints shell lines that export the
// addresses to tests which do not know env: TIDEMARK_TEST_PG_URLS, TIDEMARK_TEST_KAFKA, TIDEMARK_TEST_KAFKA_SASL,
// TIDEMARK_TEST_REGISTRY_URL. envctl ends with the command's exit code, 130 when it was told to end.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/tidemark-cdc/tidemark/integration/env"
)

const usage = "usage: envctl run [-postgres 14,18] [-kafka] [-registry] -- COMMAND... | envctl up [flags] | envctl vars [flags] | envctl fetch"

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "envctl:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func run(args []string) (code int, err error) {
	if len(args) == 0 {
		return 2, errors.New(usage)
	}
	flags := flag.NewFlagSet("envctl", flag.ContinueOnError)
	majors := flags.String("postgres", "", "start these major versions now, separated by commas")
	kafka := flags.Bool("kafka", false, "start Kafka now")
	registry := flags.Bool("registry", false, "start the schema registry now")
	if err := flags.Parse(args[1:]); err != nil {
		return 2, nil //nolint:nilerr // said by Parse
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	vars := args[0] == "vars"
	if vars && os.Getenv(env.Variable) == "" {
		return 2, fmt.Errorf("%s is not set: vars works below envctl run", env.Variable)
	}
	e, err := env.Start(ctx, env.Options{Alone: !vars})
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	if args[0] == "fetch" {
		return 0, e.Fetch(ctx)
	}
	s, err := start(ctx, e, *majors, *kafka, *registry)
	if err != nil {
		return 1, err
	}
	switch {
	case vars:
		fmt.Print(s.exports())
		return 0, nil
	case args[0] == "run" && flags.NArg() > 0:
		return child(ctx, e, flags.Args())
	case args[0] == "up":
		fmt.Printf("%s\nexport %s=%s\n", strings.Join(s.lines(), "\n"), env.Variable, e.File())
		<-ctx.Done()
		return 0, nil
	default:
		return 2, errors.New(usage)
	}
}

// started are the servers that flags asked for.
type started struct {
	postgres []*env.Postgres
	kafka    *env.Kafka
	registry *env.Registry
}

// lines has a line to connect to each.
func (s *started) lines() (lines []string) {
	for _, p := range s.postgres {
		lines = append(lines, fmt.Sprintf("PostgreSQL %d  %s  socket %s", p.Major, p.URL("postgres"), p.SocketDir()))
	}
	if s.kafka != nil {
		lines = append(lines, fmt.Sprintf("Kafka  %s  SASL %s", s.kafka.Bootstrap(), s.kafka.SASLBootstrap()))
	}
	if s.registry != nil {
		lines = append(lines, "Registry  "+s.registry.URL())
	}
	return lines
}

// exports has the addresses as shell commands.
func (s *started) exports() string {
	var b strings.Builder
	var urls []string
	for _, p := range s.postgres {
		urls = append(urls, p.URL("postgres"))
	}
	if len(urls) > 0 {
		fmt.Fprintf(&b, "export TIDEMARK_TEST_PG_URLS='%s'\n", strings.Join(urls, ","))
	}
	if s.kafka != nil {
		fmt.Fprintf(&b, "export TIDEMARK_TEST_KAFKA='%s'\nexport TIDEMARK_TEST_KAFKA_SASL='%s'\n", s.kafka.Bootstrap(), s.kafka.SASLBootstrap())
	}
	if s.registry != nil {
		fmt.Fprintf(&b, "export TIDEMARK_TEST_REGISTRY_URL='%s'\n", s.registry.URL())
	}
	return b.String()
}

// start starts servers side by side.
func start(ctx context.Context, e *env.Env, majors string, kafka, registry bool) (s started, err error) {
	var numbers []int
	for m := range strings.SplitSeq(majors, ",") {
		if m == "" {
			continue
		}
		major, err := strconv.Atoi(m)
		if err != nil {
			return s, fmt.Errorf("-postgres %s: %q is not a major version", majors, m)
		}
		numbers = append(numbers, major)
	}
	s.postgres = make([]*env.Postgres, len(numbers))
	errs := make([]error, len(numbers)+2)
	var wg sync.WaitGroup
	for i, major := range numbers {
		wg.Go(func() { s.postgres[i], errs[i] = e.OpenPostgres(ctx, major) })
	}
	if kafka {
		wg.Go(func() { s.kafka, errs[len(numbers)] = e.OpenKafka(ctx) })
	}
	if registry {
		wg.Go(func() { s.registry, errs[len(numbers)+1] = e.OpenRegistry(ctx) })
	}
	wg.Wait()
	return s, errors.Join(errs...)
}

// child runs the command; a signal to envctl ends it first, so that the servers outlive it.
func child(ctx context.Context, e *env.Env, args []string) (int, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), env.Variable+"="+e.File())
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return 130, nil
	case errors.As(err, &exit):
		return max(exit.ExitCode(), 1), nil
	case err != nil:
		return 127, err
	}
	return 0, nil
}
