package main

import (
	"github.com/spf13/cobra"

	"github.com/tidemark-cdc/tidemark/cmd/connectctl/internal/demo"
)

func newDemoCommand() *cobra.Command {
	var opt demo.Options
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch a shop's database arrive in Kafka, through a kill, and see it proven",
		Long: `Runs a real PostgreSQL (fetched once), an embedded Kafka and an embedded schema registry in a
directory of its own, and a small shop's traffic. The pipeline, a child process, is killed in the middle
of a transaction of 200,000 rows and started again. Then every change the database committed is compared
with what a read_committed reader finds in Kafka. All of it is stopped and removed at the end.

Servers of yours are used where their addresses are given; what the demo makes there has names of its own
and is removed.

Exit code: 0 if all was proven, 1 if something was lost, repeated or out of order, or could not be run.`,
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			opt.Out, opt.Err = cmd.OutOrStdout(), cmd.ErrOrStderr()
			if err := checkDemoFlags(&opt); err != nil {
				return err
			}
			return runDemo(cmd.Context(), opt)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&opt.JSON, "json", false, "print the result as one JSON object on standard output, and all else on standard error")
	f.BoolVar(&opt.Keep, "keep", false, "leave everything running at the end and say how to connect")
	f.StringVar(&opt.PostgresArchive, "postgres-archive", "", "take PostgreSQL's programs from this .txz or .jar `file` instead of fetching them")
	f.StringVar(&opt.PostgresURL, "postgres-url", "", "use this PostgreSQL server: `postgres://user:password@host:port/database`")
	f.StringVar(&opt.Bootstrap, "bootstrap-servers", "", "use these Kafka brokers: `host:port,…`")
	f.StringVar(&opt.RegistryURL, "schema-registry-url", "", "use this schema registry: `http://host:port`")
	f.StringVar(&opt.Cache, "cache", "", "`folder` for fetched programs and run directories (default: tidemark in your cache folder, /var/cache/tidemark for root)")
	cmd.AddCommand(demoChildren()...)
	return cmd
}

func checkDemoFlags(opt *demo.Options) error {
	if opt.PostgresURL != "" && opt.PostgresArchive != "" {
		return usageError("--postgres-url and --postgres-archive exclude each other: give one of them")
	}
	return nil
}
