// Command envctl starts the servers of integration/env for a command, or until it is told to end.
//
//	envctl run [-postgres 14,18] [-kafka] [-registry] -- go test ./integration/...
//	envctl up  [-postgres 14,18] [-kafka] [-registry]
//	envctl fetch
//
// The command finds the run through TIDEMARK_ENV and shares its servers with every process it starts; what was not
// asked for by a flag starts on first use. envctl ends with the command's exit code, 130 when it was told to end.
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

const usage = "usage: envctl run [-postgres 14,18] [-kafka] [-registry] -- COMMAND... | envctl up [flags] | envctl fetch"

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
	e, err := env.Start(ctx, env.Options{Alone: true})
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	if args[0] == "fetch" {
		return 0, e.Fetch(ctx)
	}
	lines, err := start(ctx, e, *majors, *kafka, *registry)
	if err != nil {
		return 1, err
	}
	switch {
	case args[0] == "run" && flags.NArg() > 0:
		return child(ctx, e, flags.Args())
	case args[0] == "up":
		fmt.Printf("%s\nexport %s=%s\n", strings.Join(lines, "\n"), env.Variable, e.File())
		<-ctx.Done()
		return 0, nil
	default:
		return 2, errors.New(usage)
	}
}

// start starts servers side by side and returns a line to connect to each.
func start(ctx context.Context, e *env.Env, majors string, kafka, registry bool) ([]string, error) {
	var starts []func() (string, error)
	for m := range strings.SplitSeq(majors, ",") {
		if m == "" {
			continue
		}
		major, err := strconv.Atoi(m)
		if err != nil {
			return nil, fmt.Errorf("-postgres %s: %q is not a major version", majors, m)
		}
		starts = append(starts, func() (string, error) {
			p, err := e.OpenPostgres(ctx, major)
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("PostgreSQL %d  %s  socket %s", major, p.URL("postgres"), p.SocketDir()), nil
		})
	}
	if kafka {
		starts = append(starts, func() (string, error) {
			k, err := e.OpenKafka(ctx)
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("Kafka  %s  SASL %s", k.Bootstrap(), k.SASLBootstrap()), nil
		})
	}
	if registry {
		starts = append(starts, func() (string, error) {
			r, err := e.OpenRegistry(ctx)
			if err != nil {
				return "", err
			}
			return "Registry  " + r.URL(), nil
		})
	}
	lines, errs := make([]string, len(starts)), make([]error, len(starts))
	var wg sync.WaitGroup
	for i, f := range starts {
		wg.Go(func() { lines[i], errs[i] = f() })
	}
	wg.Wait()
	return lines, errors.Join(errs...)
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
