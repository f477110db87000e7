package snapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/schema"
)

const server = "srv"

// fake is a Snapshotter over a database. It overwrites a batch at the next Next.
type fake struct {
	d        *database
	begin    int // where the stream begins without offsets
	baseline bool
	export   bool // an exported snapshot comes with a new stream
	renew    bool
	breaks   int  // exported: rows after which a table fails, 0: none
	flaky    bool // connections break now and then
	quiet    bool // Next makes no steps
	setErr   error
	captured []int

	tx, change int
	wake       chan struct{}
	closed     chan struct{}
	once       sync.Once
	start      int
	highest    uint64
	rows       []schema.Row
	changes    []connectors.Change
	readers    int
	maxReaders int
}

func newFake(d *database) *fake {
	f := &fake{d: d, baseline: true, wake: make(chan struct{}, 1), closed: make(chan struct{})}
	for i := range d.tables {
		f.captured = append(f.captured, i)
	}
	return f
}

func pos(n int) string              { return `{"n":` + strconv.Itoa(n) + `}` }
func boundary(n int) offsets.Object { return offsets.Object{{Name: "end", Value: int64(n)}} }

func (f *fake) Open(_ context.Context, stored []offsets.Entry) (connectors.Opened, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	f.tx = f.begin
	f.start = f.begin
	o := connectors.Opened{Renew: f.renew, Baseline: f.baseline}
	if at, ok := offsets.Find(stored, offsets.StreamPartition(server)); ok && !f.renew {
		n, _ := at.Int("end")
		f.tx = int(n)
	} else if f.export {
		o.Exported = f.exported()
	}
	for _, i := range f.captured {
		if f.d.joinAt[i] <= f.tx {
			o.Tables = append(o.Tables, f.d.tables[i])
		}
	}
	for _, tx := range f.d.log[:f.tx] {
		f.highest = max(f.highest, tx.id)
	}
	f.start = f.tx
	o.Start, o.Boundary = pos(f.tx), boundary(f.tx)
	return o, nil
}

func (f *fake) Position() string { return pos(f.tx) }

func (f *fake) Wake() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func (f *fake) Mark(_ context.Context, nonce string) error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	f.d.nextID++
	f.d.log = append(f.d.log, &txn{id: f.d.nextID, marker: nonce, logged: true, visible: true})
	f.Wake()
	return nil
}

// Next makes some steps of the workload, and hands out the next part of the log.
func (f *fake) Next(ctx context.Context) (connectors.Batch, error) {
	f.scribble()
	for {
		select {
		case <-f.closed:
			return connectors.Batch{}, errors.New("closed")
		case <-ctx.Done():
			return connectors.Batch{}, ctx.Err()
		default:
		}
		f.d.mu.Lock()
		idle := f.d.steps <= 0 || f.quiet
		if !f.quiet {
			for range f.d.rng.Intn(3) {
				f.d.step()
			}
			if f.d.steps <= 0 && len(f.d.open) > 0 {
				f.d.step()
				f.Wake()
			}
		}
		if f.tx < len(f.d.log) {
			b := f.next()
			f.d.mu.Unlock()
			return b, nil
		}
		f.d.mu.Unlock()
		if !idle {
			return f.empty(), nil
		}
		select {
		case <-f.wake:
			return f.empty(), nil
		case <-f.closed:
		case <-ctx.Done():
		}
	}
}

func (f *fake) empty() connectors.Batch {
	return connectors.Batch{Tx: connectors.Transaction{Pos: pos(f.tx)}, Last: true, Lazy: true, Boundary: boundary(f.tx)}
}

func (f *fake) next() connectors.Batch {
	tx := f.d.log[f.tx]
	left := tx.changes[f.change:]
	n := len(left)
	if n > 0 {
		n = 1 + f.d.rng.Intn(n)
	}
	b := connectors.Batch{Tx: connectors.Transaction{Pos: pos(f.tx + 1), ID: tx.id}}
	for i, c := range left[:n] {
		if f.d.joinAt[c.t] > f.tx {
			continue
		}
		f.changes = append(f.changes, f.made(c, int64(f.change+i)))
	}
	b.Changes = f.changes
	if n < len(left) || n > 0 && f.d.rng.Intn(3) == 0 {
		f.change += n
		return b
	}
	f.tx, f.change = f.tx+1, 0
	b.Last, b.Boundary, b.Joined, b.Left = true, boundary(f.tx), tx.joined, tx.left
	if tx.marker != "" {
		b.Markers = []string{tx.marker}
	}
	return b
}

func (f *fake) made(c change, seq int64) connectors.Change {
	t := c.def
	if t == nil { // of a log that was written by hand
		t = f.d.tables[c.t]
	}
	out := connectors.Change{Op: c.op, Table: t, Seq: seq}
	key := func(id int) schema.Row { return f.own(schema.Row{schema.Int(int64(id)), {}, {}}) }
	switch c.op {
	case connectors.OpDelete:
		out.Before = key(c.id)
		if len(t.Key) == 0 {
			out.Before = f.own(values(c.id, c.row))
		}
		if c.moved != 0 {
			out.NewKey = key(c.moved)
		}
	case connectors.OpTruncate:
	default:
		out.After = f.own(values(c.id, c.row))
		if c.row.big == "" {
			out.After[2] = schema.Value{}
		}
		if c.old != 0 {
			out.OldKey = key(c.old)
		}
	}
	return out
}

func values(id int, r row) schema.Row {
	return schema.Row{schema.Int(int64(id)), schema.Text([]byte(r.v)), schema.Text([]byte(r.big))}
}

func (f *fake) own(r schema.Row) schema.Row { f.rows = append(f.rows, r); return r }

func (f *fake) scribble() {
	for _, r := range f.rows {
		spoil(r)
	}
	clear(f.changes)
	f.rows, f.changes = f.rows[:0], f.changes[:0]
}

func spoil(r schema.Row) {
	for i := range r {
		for k := range r[i].Bytes {
			r[i].Bytes[k] = 0xDD
		}
		r[i] = schema.Value{Kind: schema.KindString, Bytes: []byte("scribbled")}
	}
}

func (f *fake) Ack(context.Context, offsets.Object) error { return nil }
func (f *fake) Close(context.Context) error {
	f.once.Do(func() { close(f.closed) })
	return nil
}

func (f *fake) ChangeTables(_ context.Context, add, remove []string) error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if f.setErr != nil {
		return f.setErr
	}
	f.d.nextID++
	tx := &txn{id: f.d.nextID, logged: true, visible: true}
	f.d.log = append(f.d.log, tx)
	for i, t := range f.d.tables {
		if slices.Contains(add, t.QualifiedName()) {
			tx.joined, f.d.joinAt[i] = append(tx.joined, t), len(f.d.log)
		}
		if slices.Contains(remove, t.QualifiedName()) {
			tx.left, f.d.joinAt[i] = append(tx.left, t), 1<<30
		}
	}
	f.Wake()
	return nil
}

func (f *fake) Tables() (int64, []string) { return 1, nil }

// reader reads with steps of the workload before and after.
type reader struct{ f *fake }

func (f *fake) OpenReader(context.Context) (connectors.Reader, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	f.readers++
	f.maxReaders = max(f.maxReaders, f.readers)
	return &reader{f}, nil
}

func (r *reader) Close(context.Context) error {
	r.f.d.mu.Lock()
	defer r.f.d.mu.Unlock()
	r.f.readers--
	return nil
}

func (r *reader) find(name string) (int, error) {
	if err := r.f.d.deny[name]; err != nil {
		return 0, err
	}
	if r.f.flaky && r.f.d.rng.Intn(50) == 0 {
		return 0, errors.New("connection reset")
	}
	for i, t := range r.f.d.tables {
		if t.QualifiedName() == name {
			return i, nil
		}
	}
	return 0, connectors.Block(fmt.Errorf("table %s does not exist", name))
}

func (r *reader) Table(_ context.Context, name string) (*schema.Table, int64, error) {
	d := r.f.d
	d.mu.Lock()
	defer d.mu.Unlock()
	i, err := r.find(name)
	if err != nil {
		return nil, 0, err
	}
	return d.tables[i], int64(len(d.vis[i])), nil
}

// place is an index into the log.
type place int

func (p place) end(b *connectors.Batch) int {
	var n int
	_, _ = fmt.Sscanf(b.Tx.Pos, `{"n":%d}`, &n)
	return n
}
func (p place) Before(b *connectors.Batch) bool { return int(p) < p.end(b) }
func (p place) Reached(b *connectors.Batch) bool {
	n, _ := b.Boundary.Int("end")
	return int(p) <= int(n)
}

// gap is a place after so many transactions, where no boundary is.
type gap int

func (p gap) Before(b *connectors.Batch) bool { return place(p).Before(b) }
func (p gap) Reached(b *connectors.Batch) bool {
	n, _ := b.Boundary.Int("end")
	return int(p) < int(n)
}

func (r *reader) Chunk(_ context.Context, q connectors.ChunkQuery) (*connectors.Chunk, error) {
	d := r.f.d
	d.mu.Lock()
	defer d.mu.Unlock()
	t, err := r.find(q.Table)
	if err != nil {
		return nil, err
	}
	if q.Where == "bad" {
		return nil, connectors.Block(errors.New("syntax error in the condition"))
	}
	r.f.steps()
	v, least := d.snapshot()
	v.highest = r.f.highest
	after := 0
	if q.After != "" {
		after, _ = strconv.Atoi(q.After)
	}
	var ids []int
	for id := range d.vis[t] {
		if id > after {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	c := &connectors.Chunk{Table: d.tables[t], Next: q.After, Visible: v, Done: len(ids) <= q.Limit, ReadTime: 1}
	ids = ids[:min(len(ids), q.Limit)]
	if n := len(ids); n > 0 {
		c.Next = strconv.Itoa(ids[n-1])
	}
	for _, k := range q.Again {
		id, err := strconv.Atoi(k)
		if err != nil {
			panic(k)
		}
		if _, ok := d.vis[t][id]; ok && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	for _, id := range ids {
		own := append(values(id, d.vis[t][id]), schema.Int(int64(id))) // what Key takes: rows of other origin have none
		c.Rows = append(c.Rows, own[:3])
	}
	c.Key = func(r schema.Row) string { return strconv.FormatInt(r[:4][3].Num, 10) }
	c.Free = func() {
		for _, row := range c.Rows {
			clear(row[:4]) // whoever uses it after this is found out
		}
	}
	r.f.steps()
	if c.Place = place(least); d.rng.Intn(2) == 0 {
		c.Place = place(len(d.log))
	}
	r.f.Wake()
	if !r.f.quiet && d.rng.Intn(8) == 0 { // the answer takes its time, and the stream goes on
		for n := 0; n < 50 && !d.alter(t); n++ {
			d.step()
		}
		d.mu.Unlock()
		time.Sleep(200 * time.Microsecond)
		d.mu.Lock()
	}
	return c, nil
}

// steps has the workload go on; the lock is held.
func (f *fake) steps() {
	for range f.d.rng.Intn(3) {
		if !f.quiet {
			f.d.step()
		}
	}
}

// Copy reads a table as of the log's end.
func (r *reader) Copy(_ context.Context, q connectors.CopyQuery, fn func(connectors.CopyRows) error) error {
	d := r.f.d
	d.mu.Lock()
	t, err := r.find(q.Table)
	if err != nil {
		d.mu.Unlock()
		return err
	}
	m := asOf(d.base[t], d.log, t)
	run := connectors.CopyRows{Table: d.tables[t], Place: place(len(d.log)), ReadTime: 1}
	between := d.rng.Intn(2) == 0
	if between { // no transaction ends there
		run.Place = gap(len(d.log))
	}
	r.f.steps()
	if between {
		d.nextID++
		d.log = append(d.log, &txn{id: d.nextID, logged: true, visible: true})
	}
	d.mu.Unlock()
	r.f.Wake()
	if err := fn(run); err != nil {
		return fmt.Errorf("copy: %w", err)
	}
	for id, v := range m {
		run.Rows = append(run.Rows, values(id, v))
		if len(run.Rows) == 3 {
			if err := fn(run); err != nil {
				return err
			}
			for _, r := range run.Rows {
				spoil(r)
			}
			run.Rows = nil
		}
	}
	if len(run.Rows) == 0 {
		return nil
	}
	return fn(run)
}
