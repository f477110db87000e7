package main

import (
	"errors"
	"fmt"
	"os"
	"runtime/pprof"

	"github.com/spf13/cobra"
)

// profiled adds the hidden flag --cpuprofile FILE: a CPU profile of the whole command, for go tool pprof.
func profiled(cmd *cobra.Command) *cobra.Command {
	var file string
	cmd.Flags().StringVar(&file, "cpuprofile", "", "write a CPU profile to this file")
	if err := cmd.Flags().MarkHidden("cpuprofile"); err != nil {
		panic(err) // the flag was added above
	}
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if file == "" {
			return run(cmd, args)
		}
		out, err := os.Create(file)
		if err != nil {
			return &exitError{exitUsage, fmt.Errorf("--cpuprofile: %w", err)}
		}
		defer func() { err = errors.Join(err, out.Close()) }()
		if err := pprof.StartCPUProfile(out); err != nil {
			return fmt.Errorf("--cpuprofile: %w", err)
		}
		defer pprof.StopCPUProfile()
		return run(cmd, args)
	}
	return cmd
}
