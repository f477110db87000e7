package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark-cdc/tidemark/integration/docs"
)

const commandPage = "docs/connectctl.md"

// The documented exit codes are the ones the commands end with.
func TestDocumentedExitCodes(t *testing.T) {
	var b strings.Builder
	b.WriteString("| code | means |\n| --- | --- |\n")
	for _, c := range []struct {
		code  int
		means string
	}{
		{exitOK, "done; nothing wrong was found"},
		{exitFailure, "a check found a violation or a problem, or an operation did not succeed"},
		{exitUsage, "a flag, an argument or a configuration file is wrong"},
		{exitBlocked, "blocked: a source transaction that would fail again on the same bytes; nothing of it was published or acknowledged"},
		{exitFenced, "fenced: another worker with the same transactional id has taken over"},
		{exitRefused, "refused at start: what is stored and what the database or Kafka has do not fit; an operator must decide"},
		{exitHangup, "ended by SIGHUP"},
		{exitInterrupt, "ended by SIGINT"},
		{exitTerminate, "ended by SIGTERM"},
	} {
		fmt.Fprintf(&b, "| %d | %s |\n", c.code, c.means)
	}
	docs.Section(t, commandPage, "exit codes", b.String())
}

// Every command and every flag has its place on the page.
func TestDocumentedCommands(t *testing.T) {
	page := docs.Page(t, commandPage)
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Hidden || cmd.Name() == "help" || cmd.Name() == "completion" {
			return
		}
		if cmd.Runnable() && cmd.HasParent() && !cmd.HasSubCommands() && !strings.Contains(page, "`"+cmd.UseLine()[:len(cmd.CommandPath())]) {
			t.Errorf("%s does not tell of %s", commandPage, cmd.CommandPath())
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" && !f.Hidden && !strings.Contains(page, "--"+f.Name) {
				t.Errorf("%s does not tell of %s --%s", commandPage, cmd.CommandPath(), f.Name)
			}
		})
		for _, c := range cmd.Commands() {
			walk(c)
		}
	}
	walk(newRoot())
}
