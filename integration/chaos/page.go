package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Markdown is the report as a page; command is what made it.
func (r *Report) Markdown(command string) string {
	var b strings.Builder
	b.WriteString("# Proof\n\n" + summary(r) + "\n\n")
	fmt.Fprintf(&b, "```\n%s\n```\n\n", command)
	b.WriteString(figures(r))
	b.WriteString(explained)
	b.WriteString(r.struckTable())
	r.found(&b)
	fmt.Fprintf(&b, "\n## The same again\n\nThe seeds are %d to %d, one a round. One round alone, with its load and its faults, is\n\n```\nmake chaos ROUNDS=1 SEED=%d\n```\n\n"+
		"A seed makes the same statements and the same faults, not the same interleaving: what failed once may need a few runs, `FOR=10m FAULT=\"broker killed\"` strikes one fault over and over, "+
		"`FAULT=each` every one in turn, and `LABS=2` runs two sets of servers side by side. Java, PostgreSQL, %d MiB of disk and %d MiB of memory for each lab are needed; what the machine lacks is said before anything starts.\n",
		r.Seed, r.Seed+uint64(max(r.Begun, 1))-1, r.Seed, roomDisk>>20, roomMemory>>20)
	fmt.Fprintf(&b, "\n```json\n%s\n```\n", r.JSON())
	return b.String()
}

func summary(r *Report) string {
	text := fmt.Sprintf("%d rounds of random load were struck by %d faults. %d changes were judged; ", r.Rounds, r.faults(), r.Changes)
	switch n := len(r.Violations); n {
	case 0:
		text += "none was lost, none was there twice, none out of order."
	case 1:
		text += "there was **1 violation**."
	default:
		text += fmt.Sprintf("there were **%d violations**.", n)
	}
	if r.Interrupted {
		text += " The run was interrupted."
	}
	return text
}

func figures(r *Report) string {
	var b strings.Builder
	b.WriteString("| | |\n| --- | --- |\n")
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "| %s | "+format+" |\n", append([]any{name}, args...)...)
	}
	row("rounds", "%d", r.Rounds)
	minutes := max(r.Took.Minutes(), 1.0/60)
	row("time", "%s, %.1f rounds a minute in %s", r.Took.Round(time.Second), float64(r.Rounds)/minutes, count(max(r.Labs, 1), "lab"))
	row("faults", "%d", r.faults())
	row("transactions of the load", "%d committed", r.Load)
	row("changes judged", "%d in %d transactions", r.Changes, r.Transactions)
	row("slot and offset sampled", "%d times", r.Samples)
	row("streams", "%d, of which %d began with the rows of their tables", r.Streams, r.First)
	row("tables read on demand", "%d", r.Read)
	row("violations", "%d", len(r.Violations))
	row("transactions whose markers Kafka forgot", "%d", r.Forgotten)
	row("labs that broke and were replaced", "%d", len(r.Broken))
	return b.String()
}

const explained = `
## What happens in a round

A lab is a PostgreSQL 18, a Kafka broker and a schema registry, with a proxy before each, and an ordinary ` + "`connectctl run`" + `
process with one connector. Two to four sessions write at once into nine tables: with one key column and with two, without a key,
partitioned, with large values stored out of line, with whole before-images, with a few hot rows, and one whose columns come and
go. They insert, update, delete, change keys, truncate, roll back whole transactions and savepoints, write logical messages, hold
transactions open while others commit first, pause, and now and then write 100,000 rows at once. Every third stream begins with
the rows that its tables have, under load and faults; in every fourth round some tables are read anew on demand.

While they write, one to three faults strike. Then the faults end, the load ends, and the stream must get there by itself.

## What is judged

A second slot at the same place gives what the database's log says, which is the truth. After every round:

- everything the log has is in the topics, once, at its place, with its values, and nothing else is there;
- ` + "`(__gen, __pos, __seq)`" + ` strictly increases in every partition, over all rounds of a stream;
- replaying the topics gives exactly the tables (of a table without a key, once it was read by a snapshot, at least its rows);
- every before-image is what the record before it left;
- every transaction has as many records as its END says;
- a truncate is in every partition, a delete is followed by its tombstone;
- every snapshot that was asked for ended well, with its rows at a boundary.

Kafka 4.4.0 itself forgets the markers of a transaction that it has acknowledged where all replicas of a partition shut down in
that moment (KAFKA-20734), as the lab's one broker does: no reader gets past it any more. Where the coordinator's own log proves
that, the markers are written in its place, rows that were aborted and became visible all the same are left out, both counted above,
and everything else is judged as ever.

All along, every 40 ms, the slot is read and then the committed offset: the slot must never be ahead. The worker may only end
where a fault calls for it, with the exit code and the sentence that belong to it.
`

// struckTable is the faults by kind.
func (r *Report) struckTable() string {
	var b strings.Builder
	b.WriteString("\n## Faults\n\n| fault | struck |\n| --- | --- |\n")
	for _, name := range slices.Sorted(maps.Keys(r.Faults)) {
		fmt.Fprintf(&b, "| %s | %d |\n", name, r.Faults[name])
	}
	return b.String()
}

// found lists violations, and labs that broke.
func (r *Report) found(b *strings.Builder) {
	section := func(title string, list []string) {
		if len(list) == 0 {
			return
		}
		fmt.Fprintf(b, "\n## %s\n", title)
		for _, text := range list {
			fmt.Fprintf(b, "\n```\n%s\n```\n", text)
		}
	}
	section("Violations", r.Violations)
	section("Labs that were replaced", r.Broken)
}
