//go:build !linux && !darwin

package main

import (
	"context"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/tidemark-cdc/tidemark/cmd/connectctl/internal/demo"
)

func runDemo(context.Context, demo.Options) error {
	return fmt.Errorf("the demo cannot run on %s: run it on Linux or macOS", runtime.GOOS)
}

func demoChildren() []*cobra.Command { return nil }
