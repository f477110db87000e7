//go:build linux || darwin

package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/tidemark-cdc/tidemark/cmd/connectctl/internal/demo"
	"github.com/tidemark-cdc/tidemark/cmd/connectctl/internal/demo/embeddedpg"
	"github.com/tidemark-cdc/tidemark/cmd/connectctl/internal/terminal"
)

func runDemo(ctx context.Context, opt demo.Options) error {
	opt.Terminal, opt.Width = terminal.Size(os.Stdout)
	return demo.Run(ctx, opt)
}

// demoChildren are the demo's own children: hidden, since nobody else has use for them.
func demoChildren() []*cobra.Command {
	postgres := &cobra.Command{
		Use: demo.PostgresChild, Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error { return embeddedpg.Child(cmd.InOrStdin()) },
	}
	reaper := &cobra.Command{
		Use: demo.ReaperChild, Hidden: true, Args: exactly(1, "a run directory"),
		RunE: func(_ *cobra.Command, args []string) error { return demo.Reap(os.Stdin, args[0]) },
	}
	return []*cobra.Command{postgres, reaper}
}
