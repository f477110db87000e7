package catalog

import (
	"strings"
	"testing"

	"github.com/tidemark-cdc/tidemark/connectors"
)

func selector(text string) Selector {
	return Selector{Text: text, Matches: func(schema, table string) bool { return schema+"."+table == text }}
}

func TestCheckFindsNothing(t *testing.T) {
	onEach(t, func(t *testing.T, d *database) {
		d.exec("CREATE TABLE public.orders (id int PRIMARY KEY)")
		got := Check(d.ctx, CheckConfig{Conn: d.cfg, Slot: d.slotName(), Include: []Selector{selector("public.orders")},
			Publication: PublicationConfig{Name: "p", Mode: Filtered}})
		if len(got) != 0 {
			t.Errorf("%v", got)
		}
		if d.value("SELECT count(*)::text FROM pg_publication") != "0" {
			t.Error("Check created a publication")
		}
	})
}

func TestCheckFindsEverythingAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, d *database) {
		slot := d.slotName()
		d.exec("CREATE TABLE public.orders (id int PRIMARY KEY)", "CREATE TABLE public.keyless (id int)",
			"CREATE TABLE public.silent (id int PRIMARY KEY)", "ALTER TABLE public.silent REPLICA IDENTITY NOTHING",
			"CREATE PUBLICATION p FOR TABLE public.orders WITH (publish = 'insert')",
			"SELECT pg_create_logical_replication_slot('"+slot+"', 'test_decoding')")
		cfg := CheckConfig{
			Conn: d.role(""), Slot: slot, HasOffsets: true,
			Include:     []Selector{selector("public.orders"), selector("public.ordes")},
			Publication: PublicationConfig{Name: "p", Mode: Filtered},
			KeyColumns: func(_, table string) []string {
				if table == "orders" {
					return []string{"nope"}
				}
				return nil
			},
		}
		wantProblems(t, Check(d.ctx, cfg),
			"database.user: ", "lacks REPLICATION",
			"slot.name: ", "test_decoding",
			"table.include.list: ", `"public.ordes" matches no table; did you mean public.orders?`,
			"table public.keyless: it has no primary key", "table public.silent: it has REPLICA IDENTITY NOTHING",
			`table public.orders: message.key.columns names column "nope"`,
			"publication.autocreate.mode: ", "does not own publication p", "does not own public.keyless, public.silent",
			"does not publish truncate")
		cfg.Slot, cfg.Publication.Name = "Bad Slot", "q"
		wantProblems(t, Check(d.ctx, cfg), `"Bad Slot" is not a slot name`, "lacks CREATE on database")
		cfg.Slot, cfg.Publication.Mode, cfg.Failover = d.slotName(), Disabled, true
		cfg.Captured = func(string, string) bool { return false }
		says := []string{"does not exist, but the stream has offsets", "publication q does not exist", "no table of database"}
		if majorVersion(d.conn.PgConn().ParameterStatus("server_version")) < 17 {
			says = append(says, "slot.failover: needs PostgreSQL 17")
		}
		wantProblems(t, Check(d.ctx, cfg), says...)
		cfg.Conn.Password = "wrong-word"
		wantProblems(t, Check(d.ctx, cfg), "password of user")
	})
}

func wantProblems(t *testing.T, got []connectors.Problem, says ...string) {
	t.Helper()
	var all strings.Builder
	for _, p := range got {
		all.WriteString(p.String() + "\n")
	}
	for _, s := range says {
		if !strings.Contains(all.String(), s) {
			t.Errorf("no problem says %q in:\n%s", s, all.String())
		}
	}
}
