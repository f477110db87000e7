package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"time"

	"github.com/tidemark-cdc/tidemark/integration/env"
)

const drainTimeout = 5 * time.Minute

// drain is a bench whose rows are there before they are read.
type drain struct {
	*bench
	shape

	before   string // LSN within the last transaction, after its rows
	end      string // LSN after the last commit
	walBytes int64
}

// drained is one drain of all the rows.
type drained struct {
	rate    float64 // rows a second
	running time.Duration
	sides
	written
}

// drainBench measures a shape.
func drainBench(ctx context.Context, o options, s shape) (err error) {
	d, err := loaded(ctx, o, s, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	fmt.Println("                           " + sidesHead + "| Kafka's")
	fmt.Println("                    rows/s " + sidesHead2 + "| batches transactions | ratio  RUNNING after")
	var limits, streams []drained
	for i := range d.warm + d.pairs {
		limit, err := d.recvlogical(ctx)
		if err != nil {
			return fmt.Errorf("pg_recvlogical: %w", err)
		}
		stream, err := d.run(ctx)
		if err != nil {
			return fmt.Errorf("connectctl run: %w", err)
		}
		note := ""
		if i < d.warm {
			note = "  (warming, not counted)"
		} else {
			limits, streams = append(limits, limit), append(streams, stream)
		}
		fmt.Printf("pg_recvlogical  %s%s\n", limit.line(0), note)
		fmt.Printf("connectctl run  %s%s\n", stream.line(stream.rate/limit.rate), note)
	}
	return d.report(limits, streams)
}

// loaded starts the servers and commits a shape's rows.
func loaded(ctx context.Context, o options, s shape, memory int64) (d *drain, err error) {
	s.rows, s.pairs = or(o.rows, s.rows), or(o.pairs, s.pairs)
	if o.warm >= 0 {
		s.warm = o.warm
	}
	if s.perTx == 0 {
		s.perTx = s.rows
	}
	if s.rows%s.perTx != 0 || s.rows < s.tables {
		return nil, fmt.Errorf("%d rows are not a multiple of the %d of a transaction, from %d", s.rows, s.perTx, max(s.perTx, s.tables))
	}
	// The table, its WAL and, until the broker has deleted them, the topics of every run.
	b, err := setUp(ctx, o, int64(s.rows)*int64(s.bytes)*int64(2+s.warm+s.pairs), memory)
	if err != nil {
		return nil, err
	}
	d = &drain{bench: b, shape: s}
	began := time.Now()
	if err := d.load(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("load: %w", err), b.close())
	}
	fmt.Printf("%d rows loaded in %.1f s, %d MiB of WAL; both sides connect over %s\n\n", d.rows, time.Since(began).Seconds(), d.walBytes>>20, o.transport)
	return d, nil
}

// load makes the tables and the slot, then the rows.
func (d *drain) load(ctx context.Context) error {
	for _, name := range d.tableNames() {
		if _, err := d.sql.Exec(ctx, fmt.Sprintf(d.create, name)); err != nil {
			return err
		}
	}
	each := fmt.Sprintf(d.insert, fmt.Sprintf("n::bigint * %d + 1", d.perTx), fmt.Sprintf("(n::bigint + 1) * %d", d.perTx))
	last := fmt.Sprintf(d.insert, fmt.Sprintf("%d::bigint", d.rows-d.perTx+1), fmt.Sprintf("%d::bigint", d.rows))
	err := d.exec(ctx, "make the rows",
		"CREATE PUBLICATION "+publication+" FOR ALL TABLES",
		"SELECT pg_create_logical_replication_slot('"+template+"', 'pgoutput')",
		fmt.Sprintf("DO $$ BEGIN FOR n IN 0..%d LOOP ", d.rows/d.perTx-2)+each+"; COMMIT; END LOOP; END $$",
		"BEGIN", "DO $$ BEGIN "+last+"; END $$")
	if err != nil {
		return err
	}
	if err := d.sql.QueryRow(ctx, "SELECT pg_current_wal_insert_lsn()::text").Scan(&d.before); err != nil {
		return err
	}
	if err := d.exec(ctx, "commit the last transaction", "COMMIT"); err != nil {
		return err
	}
	const end = "SELECT pg_current_wal_insert_lsn()::text, (pg_current_wal_insert_lsn() - confirmed_flush_lsn)::bigint FROM pg_replication_slots WHERE slot_name = $1"
	if err := d.sql.QueryRow(ctx, end, template).Scan(&d.end, &d.walBytes); err != nil {
		return err
	}
	// What was written is on disk before anything is measured.
	return d.exec(ctx, "write it out", "CHECKPOINT")
}

// recvlogical drains the rows with pg_recvlogical.
func (d *drain) recvlogical(ctx context.Context) (r drained, err error) {
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	tool, err := env.PgRecvlogical()
	if err != nil {
		return r, err
	}
	slot, drop, err := d.newSlot(ctx, template)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, drop()) }()
	cmd := exec.Command(tool, "--host="+d.host(), "--port="+strconv.Itoa(d.pg.Port()), "--username="+env.Superuser, "--dbname="+database,
		"--slot="+slot, "--start", "--no-loop", "--file=/dev/null", "--endpos="+d.end, "-o", "proto_version=1", "-o", "publication_names="+publication)
	cmd.Env = append(os.Environ(), "PGPASSWORD="+env.SuperuserPassword)
	c, err := start(cmd)
	if err != nil {
		return r, err
	}
	m := d.meter(ctx, cmd.Process.Pid, slot, false)
	err = c.wait(ctx)
	r = drained{rate: d.rateSince(c.began), sides: m.read()}
	return r, err
}

func (d *drain) rateSince(began time.Time) float64 {
	return float64(d.rows) / time.Since(began).Seconds()
}

// run drains the rows with connectctl, into topics of their own, and checks them.
func (d *drain) run(ctx context.Context) (r drained, err error) {
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	slot, drop, err := d.newSlot(ctx, template)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, drop()) }()
	offsets, err := d.watchOffsets(ctx, slot)
	if err != nil {
		return r, err
	}
	defer offsets.Close()
	c, err := d.connector(slot, nil)
	if err != nil {
		return r, err
	}
	m := d.meter(ctx, c.cmd.Process.Pid, slot, false)
	err = c.during(ctx, func(ctx context.Context) error { return offsets.until(ctx, d.before) })
	r = drained{rate: d.rateSince(c.began), sides: m.read()}
	if at := c.said.ranAt(); !at.IsZero() {
		r.running = at.Sub(c.began)
	}
	if ended := c.terminate(); err == nil {
		err = ended
	}
	if err == nil {
		r.written, err = d.checkTopics(ctx, slot)
	}
	if err == nil && !d.keep {
		err = d.deleteTopics(ctx, d.topics(slot))
	}
	return r, err
}

// topics are those of a connector.
func (d *drain) topics(slot string) (names []string) {
	for _, t := range d.tableNames() {
		names = append(names, slot+".public."+t)
	}
	return names
}

// line is a run's row of the table; ratio is 0 where there is none.
func (r drained) line(ratio float64) string {
	line := fmt.Sprintf("%10.0f ", r.rate) + r.cells() + "|"
	if ratio == 0 {
		return line + "                      |"
	}
	return line + fmt.Sprintf(" %7d %12d | %5.2f  %.2f s", r.batches, r.transactions, ratio, r.running.Seconds())
}

// report prints the medians and the line for machines.
func (d *drain) report(limits, streams []drained) error {
	var ratios []float64
	for i := range limits {
		ratios = append(ratios, streams[i].rate/limits[i].rate)
	}
	slices.Sort(ratios)
	ratio := ratios[len(ratios)/2]
	rate := median(streams, func(r drained) float64 { return r.rate })
	limit := median(limits, func(r drained) float64 { return r.rate })
	cpu := median(streams, func(r drained) float64 { return r.program.cpu })
	mib := peak(streams, func(r drained) sides { return r.sides })
	fmt.Printf("\nmedian: %.0f rows/s, pg_recvlogical %.0f, ratio %.2f; CPU %.2f s, pg_recvlogical %.2f s; peak memory %d MiB\n",
		rate, limit, ratio, cpu, median(limits, func(r drained) float64 { return r.program.cpu }), mib)
	return closing(struct {
		Bench     string  `json:"bench"`
		Transport string  `json:"transport"`
		Rows      int     `json:"rows"`
		Rate      float64 `json:"rows_per_second"`
		Limit     float64 `json:"limit_rows_per_second"`
		Ratio     float64 `json:"ratio"`
		MiBRate   float64 `json:"wal_mib_per_second"`
		CPU       float64 `json:"cpu_seconds"`
		PeakMiB   int64   `json:"rss_mib"`
	}{d.name, d.transport, d.rows, math.Round(rate), math.Round(limit), round2(ratio),
		math.Round(rate * float64(d.walBytes) / float64(d.rows) / (1 << 20)), round2(cpu), mib})
}
