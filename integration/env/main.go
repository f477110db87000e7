package env

import (
	"context"
	"fmt"
	"os"
)

// Main is the body of a TestMain: it begins or joins a run, sets *e, runs the tests, closes the run and exits.
// m is the *testing.M. Where the machine lacks something it says so and exits 1.
func Main(m interface{ Run() int }, e **Env) { os.Exit(run(m, e)) }

func run(m interface{ Run() int }, e **Env) (code int) {
	started, err := Start(context.Background(), Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := started.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}()
	*e = started
	return m.Run()
}
