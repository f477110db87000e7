// Command cmd runs chaos rounds and prints their report; its last line is one JSON object. Exit code 1 on a violation.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/tidemark-cdc/tidemark/integration/chaos"
	"github.com/tidemark-cdc/tidemark/integration/env"
	"github.com/tidemark-cdc/tidemark/integration/harness"
)

func main() {
	var o chaos.Options
	var keep string
	flag.IntVar(&o.Rounds, "rounds", 0, "rounds to make; 0: until -for")
	flag.DurationVar(&o.For, "for", 0, "begin no round after so long")
	flag.Uint64Var(&o.Seed, "seed", 0, "seed of the first round; 0: a new one")
	flag.IntVar(&o.Labs, "labs", 1, "labs side by side, each with servers of its own")
	flag.StringVar(&o.Fault, "fault", "", "only this fault, or each: every one in turn")
	flag.StringVar(&o.Binary, "connectctl", "", "the binary; built where absent")
	flag.StringVar(&keep, "keep", "", "file to write the report to, as Markdown")
	flag.Parse()
	if o.Rounds == 0 && o.For == 0 {
		o.Rounds = 30
	}
	if o.Seed == 0 {
		o.Seed = uint64(time.Now().Unix())
	}
	o.Out = os.Stdout
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	code, err := run(ctx, o, keep)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		code = max(code, 2)
	}
	os.Exit(code)
}

func run(ctx context.Context, o chaos.Options, keep string) (code int, err error) {
	if err := chaos.Lacks(o.Labs); err != nil {
		return 2, err
	}
	e, err := env.Start(ctx, env.Options{})
	if err != nil {
		return 2, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	if o.Binary == "" {
		if o.Binary, err = harness.Build(ctx); err != nil {
			return 2, err
		}
		defer harness.Remove(o.Binary)
	}
	r, err := chaos.Run(ctx, e, o)
	if r == nil {
		return 2, err
	}
	text := r.Markdown(command(o, keep))
	if keep != "" && r.Rounds > 0 { // also where the run was interrupted: the page says so
		if err := os.WriteFile(keep, []byte(text), 0o644); err != nil {
			return 2, err
		}
	}
	fmt.Printf("\n%s\n%s\n", text, r.JSON())
	if len(r.Violations) > 0 {
		code = 1
	}
	if ctx.Err() != nil {
		return 130, nil
	}
	return code, err
}

// command is the make command that does the same.
func command(o chaos.Options, keep string) string {
	text := "make chaos"
	if o.Rounds > 0 {
		text += fmt.Sprintf(" ROUNDS=%d", o.Rounds)
	}
	if o.For > 0 {
		text += fmt.Sprintf(" FOR=%s", o.For)
	}
	text += fmt.Sprintf(" SEED=%d", o.Seed)
	if o.Labs > 1 {
		text += fmt.Sprintf(" LABS=%d", o.Labs)
	}
	if o.Fault != "" {
		text += fmt.Sprintf(" FAULT=%q", o.Fault)
	}
	if keep != "" {
		text += " KEEP=" + keep
	}
	return text
}
