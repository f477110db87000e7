package catalog

import (
	"context"
	"errors"
	"net"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets"
)

func TestPositionRoundTrip(t *testing.T) {
	for _, p := range []Position{
		{SystemID: "7301", Timeline: 2, Pos: `{"lsn":"3D/485795A0"}`, PosLSN: 0x3D485795A0, BoundaryLSN: 0x3D485795D0, AckedLSN: 0x3D00000000, HighestXID: 1 << 40},
		{SystemID: "18446744073709551615", Timeline: 1, BoundaryLSN: 1},
	} {
		o := p.Object("g", "c")
		got, err := ParsePosition(o)
		if err != nil || *got != p {
			t.Errorf("got %+v, %v, want %+v", got, err, p)
		}
		var names []string
		for _, f := range o {
			names = append(names, f.Name)
		}
		want := "group connector system_id timeline pos boundary_lsn acked_lsn highest_xid"
		if p.Pos == "" {
			want = strings.Replace(want, "pos ", "", 1)
		}
		if strings.Join(names, " ") != want {
			t.Errorf("members %v, want %s", names, want)
		}
	}
	if p, err := ParsePosition(nil); p != nil || err != nil {
		t.Errorf("nil gives %v, %v", p, err)
	}
}

func TestParsePositionRefuses(t *testing.T) {
	boundary := offsets.Field{Name: "boundary_lsn", Value: "0/1"}
	for says, o := range map[string]offsets.Object{
		"boundary_lsn":     {{Name: "system_id", Value: "1"}},
		"acked_lsn":        {boundary, {Name: "acked_lsn", Value: "x"}},
		"timeline":         {boundary, {Name: "timeline", Value: "one"}},
		"timeline is":      {boundary, {Name: "timeline", Value: int64(1) << 40}},
		"highest_xid":      {boundary, {Name: "highest_xid", Value: 1.5}},
		`position "0/1"`:   {boundary, {Name: "pos", Value: "0/1"}},
		"system_id is nil": nil,
	} {
		if o == nil {
			o, says = offsets.Object{boundary, {Name: "system_id", Value: nil}}, "system_id"
		}
		_, err := ParsePosition(o)
		if err == nil || !strings.Contains(err.Error(), says) || connectors.ClassOf(err) != connectors.ClassRefused {
			t.Errorf("%s: %v", says, err)
		}
	}
}

func TestParseTimelineHistory(t *testing.T) {
	got, err := ParseTimelineHistory([]byte("# comment\n1\t0/3000000\tno recovery target specified\n\n2\t1A/B374D848\tbefore 2024-01-01 00:00:00+00\r\n"))
	want := TimelineHistory{{1, 0x3000000, "no recovery target specified"}, {2, 0x1AB374D848, "before 2024-01-01 00:00:00+00"}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	if end, ok := got.EndOf(2); end != 0x1AB374D848 || !ok {
		t.Errorf("timeline 2 ends at %s, %t", end, ok)
	}
	for _, bad := range []string{"1", "x\t0/1\t", "1\t0-1\t", "2\t0/1\t\n1\t0/2\t", "1\t0/2\t\n2\t0/1\t"} {
		if got, err := ParseTimelineHistory([]byte(bad)); err == nil {
			t.Errorf("%q gives %v", bad, got)
		}
	}
}

func column(name string, notNull bool) Column {
	return Column{Name: name, TypeName: "integer", NotNull: notNull}
}

func keyTable(kind byte, primary, identity []string) *Table {
	return &Table{OID: 1, Schema: "s", Name: "t", Kind: 'r', IdentityKind: kind, IdentityIndex: "t_i", PrimaryKey: primary, IdentityColumns: identity,
		Columns: []Column{column("id", true), column("b", true), column("n", false), {Name: "v", NotNull: true, Generated: 'v'}}}
}

func TestKeyFor(t *testing.T) {
	id, b, all := []string{"id"}, []string{"b"}, []string{"id", "b", "n", "v"}
	inserts := Operations{Insert: true, Truncate: true}
	late := func(t *Table) *Table { t.Deferrable = true; return t }
	part := func(leaf *Table) *Table {
		root := keyTable('d', id, id)
		leaf.Name, root.Kind, root.Leaves = "t_1", 'p', []*Table{leaf}
		return root
	}
	cases := []struct {
		name       string
		table      *Table
		configured []string
		ops        Operations
		want       []string
		says       string // of the refusal
	}{
		{"primary key", keyTable('d', id, id), nil, AllOperations, id, ""},
		{"primary key, full", keyTable('f', id, all), nil, AllOperations, id, ""},
		{"primary key in the index", keyTable('i', id, []string{"b", "id"}), nil, AllOperations, id, ""},
		{"primary key not in the index", keyTable('i', id, b), nil, AllOperations, nil, "index t_i (b)"},
		{"index without primary key", keyTable('i', nil, b), nil, AllOperations, b, ""},
		{"index is gone", keyTable('i', id, nil), nil, AllOperations, nil, "index is gone"},
		{"nothing", keyTable('n', id, nil), nil, AllOperations, nil, "REPLICA IDENTITY NOTHING"},
		{"nothing, inserts only", keyTable('n', id, nil), nil, inserts, id, ""},
		{"deferrable", keyTable('d', id, nil), nil, AllOperations, nil, "deferrable"},
		{"deferrable, full", late(keyTable('f', id, all)), nil, AllOperations, nil, "exchange keys"},
		{"deferrable, full, configured", late(keyTable('f', id, all)), id, AllOperations, id, ""},
		{"deferrable, inserts only", late(keyTable('d', id, nil)), nil, inserts, id, ""},
		{"keyless, full", keyTable('f', nil, all), nil, AllOperations, nil, ""},
		{"keyless", keyTable('d', nil, nil), nil, AllOperations, nil, "no primary key and no REPLICA IDENTITY FULL"},
		{"keyless, deletes only", keyTable('d', nil, nil), nil, Operations{Delete: true}, nil, "no primary key"},
		{"keyless, inserts only", keyTable('d', nil, nil), nil, inserts, nil, ""},
		{"configured, full", keyTable('f', id, all), b, AllOperations, b, ""},
		{"configured, default", keyTable('d', id, id), b, AllOperations, nil, `"b" (from its message.key.columns) is not in what the log carries`},
		{"configured, inserts only", keyTable('d', id, id), b, inserts, b, ""},
		{"configured, nullable", keyTable('f', id, all), []string{"n"}, AllOperations, nil, "may be NULL"},
		{"configured, unknown", keyTable('f', id, all), []string{"x"}, AllOperations, nil, "its columns are id, b, n, v"},
		{"configured twice", keyTable('f', id, all), []string{"b", "b"}, AllOperations, nil, "twice"},
		{"configured, virtual", keyTable('f', id, all), []string{"v"}, AllOperations, nil, "virtual"},
		{"partitions", part(keyTable('d', id, id)), nil, AllOperations, id, ""},
		{"a partition with nothing", part(keyTable('n', id, nil)), nil, AllOperations, nil, "partition s.t_1"},
		{"a partition by index", part(keyTable('i', id, b)), nil, AllOperations, nil, "partition s.t_1"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := KeyFor(c.table, c.configured, c.ops)
			if c.says == "" {
				if err != nil || !reflect.DeepEqual(got, c.want) {
					t.Errorf("got %v, %v, want %v", got, err, c.want)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "table s.t:") || connectors.ClassOf(err) != connectors.ClassRefused {
				t.Errorf("got %v, %v, want %q", got, err, c.says)
			}
		})
	}
}

func TestTableDrift(t *testing.T) {
	now := keyTable('d', []string{"id"}, []string{"id"})
	stored := now.State([]string{"id"})
	if want := (offsets.TableState{ID: 1, Name: "s.t", KeyColumns: `["id"]`, KeyTypes: "integer", Identity: "default"}); stored != want {
		t.Fatalf("state %+v", stored)
	}
	if err := TableDrift(stored, now, now, []string{"id"}); err != nil {
		t.Fatal(err)
	}
	other := keyTable('i', []string{"id"}, []string{"b"})
	other.Name, other.OID = "u", 2
	again := keyTable('d', []string{"id"}, []string{"id"})
	again.OID = 3
	wide := keyTable('d', []string{"id"}, []string{"id"})
	wide.Columns[0].TypeName = "bigint"
	full := keyTable('f', []string{"id"}, nil)
	moved := keyTable('d', []string{"id"}, []string{"id"})
	moved.Schema = "archive"
	for says, c := range map[string]struct {
		named, withOID *Table
		key            []string
	}{
		"was dropped (it had OID 1)":                  {nil, nil, nil},
		"renamed or moved to archive.t":               {nil, moved, nil},
		"OID 1 was renamed or moved to":               {again, moved, []string{"id"}},
		"it had OID 1 and has OID 3":                  {again, nil, []string{"id"}},
		`another key: it was ["id"] and is ["b"]`:     {now, now, []string{"b"}},
		`it was ["id"] and is []`:                     {now, now, nil},
		"types of the key: it was integer and is big": {wide, wide, []string{"id"}},
		"identity: it was default and is full":        {full, full, []string{"id"}},
	} {
		err := TableDrift(stored, c.named, c.withOID, c.key)
		if err == nil || !strings.Contains(err.Error(), says) || !strings.HasPrefix(err.Error(), "table s.t ") || connectors.ClassOf(err) != connectors.ClassBlock {
			t.Errorf("%s: %v", says, err)
		}
	}
}

func TestUnreachable(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := uint16(listener.Addr().(*net.TCPAddr).Port)
	_ = listener.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, never answers
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	for says, cfg := range map[string]ConnConfig{
		"connection was refused":       {Host: "127.0.0.1", Port: port},
		`host "no-such.invalid"`:       {Host: "no-such.invalid"},
		"there is no such socket":      {Host: t.TempDir()},
		"no answer in time":            {Host: "127.0.0.1", Port: uint16(silent.Addr().(*net.TCPAddr).Port), ConnectTimeout: 300 * time.Millisecond},
		"TLS settings (database.sslmo": {Host: "127.0.0.1", SSLMode: "verify-full", SSLRootCert: "/no/such/file"},
		"must all be set":              {},
	} {
		if cfg.Host != "" {
			cfg.User, cfg.Database, cfg.Password = "u", "d", "s3cret-word"
		}
		_, err := Connect(context.Background(), cfg)
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "s3cret-word") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", says, err)
		}
		refused := cfg.SSLMode != "" || cfg.Host == ""
		if (connectors.ClassOf(err) == connectors.ClassRefused) != refused {
			t.Errorf("%s has class %s", says, connectors.ClassOf(err))
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Connect(ctx, ConnConfig{Host: "127.0.0.1", Port: port, User: "u", Database: "d"}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestNearest(t *testing.T) {
	refs := []TableRef{{1, "public", "orders"}, {2, "public", "customers"}, {3, "sales", "order_lines"}}
	if got := nearest(`public\.order`, refs); len(got) == 0 || got[0] != "public.orders" {
		t.Errorf("got %v", got)
	}
	if got := nearest("zzzzzzzzz.qqqqqq", refs); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

func itoa(n uint16) string { return strconv.Itoa(int(n)) }

func itoa32(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

func TestMembersThatMatchNothing(t *testing.T) {
	member := func(text string, columns bool) Member {
		return Member{Property: "p", Text: text, Columns: columns, Matches: regexp.MustCompile("^(?:" + text + ")$").MatchString}
	}
	tables := []*Table{{Schema: "public", Name: "people", Columns: []Column{{Name: "id"}, {Name: "salary"}}}}
	refs := []TableRef{{Schema: "public", Name: "people"}, {Schema: "public", Name: "secrets"}}
	c := &checker{cfg: CheckConfig{Members: []Member{
		member(`public\.people\.salary`, true), member(`public\.secrets`, false),
		member(`public\.people\.salarx`, true), member(`public\.secrts`, false), member(`.*\.password`, true),
	}}}
	c.members(refs, tables)
	want := []string{
		`p: "public\\.people\\.salarx" matches no column of a captured table; did you mean public.people.salary?`,
		`p: "public\\.secrts" matches no table; did you mean public.secrets?`,
		`warning: p: ".*\\.password" matches no column of a captured table`,
	}
	if len(c.problems) != len(want) {
		t.Fatalf("got %v", c.problems)
	}
	for i, p := range c.problems {
		if p.String() != want[i] {
			t.Errorf("got %s\nwant %s", p, want[i])
		}
	}
}
