package postgres

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"math/rand"
	"net"
	"strings"
	"time"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/catalog"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/pgoutput"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/values"
	"github.com/tidemark-cdc/tidemark/schema"
)

// script writes a replication stream as a server would.
type script struct {
	buf   bytes.Buffer
	final uint64
}

func (s *script) message(kind byte, body []byte) {
	s.buf.WriteByte(kind)
	_ = binary.Write(&s.buf, binary.BigEndian, uint32(len(body)+4))
	s.buf.Write(body)
}

func (s *script) wal(payload []byte) {
	head := make([]byte, xlogHeader)
	head[0] = 'w'
	s.message('d', append(head, payload...))
}

func (s *script) keepalive(end uint64, reply bool) {
	b := binary.BigEndian.AppendUint64([]byte{'k'}, end)
	b = binary.BigEndian.AppendUint64(b, 0)
	if reply {
		s.message('d', append(b, 1))
	} else {
		s.message('d', append(b, 0))
	}
}

// begin opens a transaction whose commit record starts at final.
func (s *script) begin(final uint64, xid uint32) {
	s.final = final
	b := binary.BigEndian.AppendUint64([]byte{'B'}, final)
	b = binary.BigEndian.AppendUint64(b, 0)
	s.wal(binary.BigEndian.AppendUint32(b, xid))
}

// commit closes it; the record is 48 bytes long.
func (s *script) commit() {
	b := binary.BigEndian.AppendUint64([]byte{'C', 0}, s.final)
	b = binary.BigEndian.AppendUint64(b, s.final+48)
	s.wal(binary.BigEndian.AppendUint64(b, 0))
}

type col struct {
	name string
	oid  uint32
	key  bool
}

func (s *script) relation(oid uint32, name string, identity byte, cols ...col) {
	namespace, table, _ := strings.Cut(name, ".")
	b := binary.BigEndian.AppendUint32([]byte{'R'}, oid)
	b = append(append(b, namespace...), 0)
	b = append(append(append(b, table...), 0), identity)
	b = binary.BigEndian.AppendUint16(b, uint16(len(cols)))
	for _, c := range cols {
		flag := byte(0)
		if c.key {
			flag = 1
		}
		b = append(append(append(b, flag), c.name...), 0)
		b = binary.BigEndian.AppendUint32(b, c.oid)
		b = binary.BigEndian.AppendUint32(b, 0xffffffff)
	}
	s.wal(b)
}

const (
	null      = "\x00null"
	unchanged = "\x00unchanged"
)

func tuple(b []byte, vals []string) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(vals)))
	for _, v := range vals {
		switch v {
		case null:
			b = append(b, 'n')
		case unchanged:
			b = append(b, 'u')
		default:
			b = binary.BigEndian.AppendUint32(append(b, 't'), uint32(len(v)))
			b = append(b, v...)
		}
	}
	return b
}

func (s *script) insert(oid uint32, vals ...string) {
	s.wal(tuple(append(binary.BigEndian.AppendUint32([]byte{'I'}, oid), 'N'), vals))
}

func (s *script) update(oid uint32, kind byte, old []string, vals ...string) {
	b := binary.BigEndian.AppendUint32([]byte{'U'}, oid)
	if kind != 0 {
		b = tuple(append(b, kind), old)
	}
	s.wal(tuple(append(b, 'N'), vals))
}

func (s *script) delete(oid uint32, kind byte, old ...string) {
	s.wal(tuple(append(binary.BigEndian.AppendUint32([]byte{'D'}, oid), kind), old))
}

func (s *script) truncate(oids ...uint32) {
	b := append(binary.BigEndian.AppendUint32([]byte{'T'}, uint32(len(oids))), 0)
	for _, o := range oids {
		b = binary.BigEndian.AppendUint32(b, o)
	}
	s.wal(b)
}

func (s *script) logical(transactional bool, lsn uint64) {
	flag := byte(0)
	if transactional {
		flag = 1
	}
	b := binary.BigEndian.AppendUint64([]byte{'M', flag}, lsn)
	b = append(b, "app\x00"...)
	s.wal(append(binary.BigEndian.AppendUint32(b, 2), "hi"...))
}

// scriptConn is a connection that delivers a script in pieces and then ends.
type scriptConn struct {
	net.Conn
	src  io.Reader
	rnd  *rand.Rand // nil: as much as fits
	sent bytes.Buffer
}

func (c *scriptConn) Read(b []byte) (int, error) {
	if c.rnd != nil && len(b) > 1 {
		b = b[:1+c.rnd.Intn(min(len(b), 16<<10))]
	}
	return c.src.Read(b)
}
func (c *scriptConn) Write(b []byte) (int, error)      { return c.sent.Write(b) }
func (c *scriptConn) SetReadDeadline(time.Time) error  { return nil }
func (c *scriptConn) SetWriteDeadline(time.Time) error { return nil }
func (c *scriptConn) Close() error                     { return nil }

// fakeLookup is a catalogue.
type fakeLookup map[uint32]*catalog.Table

func (f fakeLookup) table(_ context.Context, oid uint32) (*catalog.Table, error) { return f[oid], nil }
func (f fakeLookup) types(context.Context, bool, ...uint32) (values.Resolver, error) {
	return func(uint32) (values.TypeInfo, bool) { return values.TypeInfo{}, false }, nil
}

const (
	oidInt4 = 23
	oidText = 25
)

func catTable(oid uint32, name string, identity byte, pk []string, cols ...col) *catalog.Table {
	namespace, table, _ := strings.Cut(name, ".")
	t := &catalog.Table{OID: oid, Schema: namespace, Name: table, Kind: 'r', Permanent: true, PrimaryKey: pk, IdentityKind: identity}
	for i, c := range cols {
		typ := map[uint32]string{oidInt4: "integer", oidText: "text"}[c.oid]
		t.Columns = append(t.Columns, catalog.Column{Num: int16(i + 1), Name: c.name, TypeOID: c.oid, Typmod: -1, TypeName: typ, NotNull: c.key})
		if identity == 'f' || (identity != 'n' && c.key) {
			t.IdentityColumns = append(t.IdentityColumns, c.name)
		}
	}
	return t
}

// rig is a stream over a script, without a server and without goroutines.
type rig struct {
	*stream
	conn *scriptConn
}

func newRig(t interface {
	Helper()
	Fatal(args ...any)
}, src io.Reader, after uint64, look fakeLookup, raw map[string]string, opts Options) *rig {
	t.Helper()
	cfg, _ := Spec().Parse(raw)
	f, err := newFilter(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r, err := newRules(cfg)
	if err != nil {
		t.Fatal(err)
	}
	conn := &scriptConn{src: src}
	opts.Log = slog.New(slog.DiscardHandler)
	if opts.MaxBatchChanges == 0 {
		opts.MaxBatchChanges = 1024
	}
	if opts.MaxBatchBytes == 0 {
		opts.MaxBatchBytes = 1 << 20
	}
	plans := newPlanner("db", f, values.Options{}, catalog.AllOperations, look)
	pos := catalog.Position{BoundaryLSN: pgoutput.LSN(after), AckedLSN: pgoutput.LSN(after)}
	st := &stream{
		opts: opts, position: pos, plans: plans, wire: newWire(conn, opts.MaxBatchBytes),
		asm: newAssembler(plans, pgoutput.LSN(after), 1000), status: newStatus(conn, pgoutput.LSN(after), pgoutput.LSN(after)),
		sentinel: newSentinel(nil), stop: make(chan struct{}), unwatch: func() bool { return true },
	}
	st.asm.rules, st.asm.server, plans.server = r, "shop", "shop"
	st.view, st.retire = &tableView{}, newRetirement(&opening{}, st.status)
	st.sentinel.err = io.EOF // nobody to wait for where the script ends
	close(st.sentinel.ended)
	return &rig{stream: st, conn: conn}
}

// drain returns a line for each batch and change, up to the error that ends the stream.
func (r *rig) drain(ack bool) (lines []string, err error) {
	for {
		b, err := r.next(context.Background())
		if err != nil {
			return lines, err
		}
		lines = append(lines, render(b)...)
		if ack && b.Last {
			r.status.ack(r.position.BoundaryLSN)
		}
	}
}

func render(b connectors.Batch) (lines []string) {
	for _, c := range b.Changes {
		if m := c.Message; m != nil {
			lines = append(lines, fmt.Sprintf("%s %d %c %s %s %t", b.Tx.Pos, c.Seq, c.Op, m.Prefix, m.Content, m.Transactional))
			continue
		}
		line := fmt.Sprintf("%s %d %c %s v%d", b.Tx.Pos, c.Seq, c.Op, c.Table.QualifiedName(), c.Table.Version)
		for _, part := range []struct {
			name string
			row  schema.Row
		}{{"before", c.Before}, {"after", c.After}, {"oldkey", c.OldKey}} {
			if part.row != nil {
				line += " " + part.name + renderRow(part.row)
			}
		}
		lines = append(lines, line)
	}
	if b.Last {
		lazy := ""
		if b.Lazy {
			lazy = " lazy"
		}
		boundary, _ := b.Boundary.Text("boundary_lsn")
		lines = append(lines, "boundary "+boundary+lazy)
	}
	return lines
}

func renderRow(row schema.Row) string {
	parts := make([]string, len(row))
	for i, v := range row {
		switch v.Kind {
		case schema.KindUnavailable:
			parts[i] = "?"
		case schema.KindNull:
			parts[i] = "-"
		case schema.KindInt:
			parts[i] = fmt.Sprint(v.Num)
		default:
			parts[i] = string(v.Bytes)
		}
	}
	return "(" + strings.Join(parts, ",") + ")"
}
