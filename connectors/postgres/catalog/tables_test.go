package catalog

import (
	"reflect"
	"strings"
	"testing"
)

func TestReadTables(t *testing.T) {
	onEach(t, func(t *testing.T, d *database) {
		d.exec(`CREATE SCHEMA "Схема"`,
			`CREATE TABLE "Схема"."таблица" ("ключ" int, "Name" varchar(30) NOT NULL, name text, "NAME" numeric(10,2)[], dropped int, PRIMARY KEY ("Name", "ключ"))`,
			`ALTER TABLE "Схема"."таблица" DROP COLUMN dropped`,
			`CREATE TABLE public.idx (a int NOT NULL, b int NOT NULL, c int, g int GENERATED ALWAYS AS (a * 2) STORED)`,
			`CREATE UNIQUE INDEX "Idx" ON public.idx (b, a) INCLUDE (c)`,
			`ALTER TABLE public.idx REPLICA IDENTITY USING INDEX "Idx"`,
			`CREATE TABLE public.late (id int PRIMARY KEY DEFERRABLE)`,
			`CREATE TABLE public.whole (a int, b text)`, `ALTER TABLE public.whole REPLICA IDENTITY FULL`,
			`CREATE TABLE public.none (id int PRIMARY KEY)`, `ALTER TABLE public.none REPLICA IDENTITY NOTHING`,
			`CREATE UNLOGGED TABLE public.fleeting (id int)`,
			`CREATE TABLE public.part (id int, k int, PRIMARY KEY (id, k)) PARTITION BY LIST (k)`,
			`CREATE TABLE public.part1 PARTITION OF public.part FOR VALUES IN (1)`,
			`CREATE TABLE public.part2 PARTITION OF public.part FOR VALUES IN (2) PARTITION BY LIST (id)`,
			`CREATE TABLE public.part2a PARTITION OF public.part2 DEFAULT`,
			`ALTER TABLE public.part2a REPLICA IDENTITY FULL`)
		leaves, roots := d.tables(false), d.tables(true)
		table := leaves["Схема.таблица"]
		if table == nil {
			t.Fatalf("tables %v", leaves)
		}
		if want := []string{"Name", "ключ"}; !reflect.DeepEqual(table.PrimaryKey, want) || !reflect.DeepEqual(table.IdentityColumns, want) || table.Identity() != "default" {
			t.Errorf("%+v", table)
		}
		if table.Quoted() != `"Схема"."таблица"` || !table.Permanent || table.Kind != 'r' {
			t.Errorf("%+v", table)
		}
		var columns []string
		for _, c := range table.Columns {
			columns = append(columns, c.Name+" "+c.TypeName)
		}
		if got := strings.Join(columns, ", "); got != "ключ integer, Name character varying(30), name text, NAME numeric(10,2)[]" {
			t.Errorf("columns %s", got)
		}
		if !table.Column("ключ").NotNull || table.Column("name").NotNull || table.Column("Name").Typmod != 34 {
			t.Errorf("columns %+v", table.Columns)
		}
		idx := leaves["public.idx"]
		if idx.Identity() != "index Idx" || !reflect.DeepEqual(idx.IdentityColumns, []string{"b", "a"}) || idx.PrimaryKey != nil || idx.Column("g").Generated != 's' {
			t.Errorf("%+v", idx)
		}
		if late := leaves["public.late"]; len(late.PrimaryKey) != 1 || late.IdentityColumns != nil {
			t.Errorf("%+v", late)
		}
		if w := leaves["public.whole"]; w.Identity() != "full" || len(w.IdentityColumns) != 2 || leaves["public.none"].Identity() != "nothing" {
			t.Errorf("%+v", w)
		}
		if leaves["public.fleeting"] != nil || leaves["public.part"] != nil || roots["public.part1"] != nil || roots["public.whole"] == nil {
			t.Errorf("leaves %v roots %v", leaves, roots)
		}
		part := roots["public.part"]
		if part.Kind != 'p' || len(part.Leaves) != 2 || part.Leaves[1].Name != "part2a" || part.Leaves[1].IdentityKind != 'f' || leaves["public.part2a"].RootOID != part.OID {
			t.Errorf("%+v", part)
		}
		if key, err := KeyFor(part, nil, AllOperations); err != nil || len(key) != 2 {
			t.Errorf("key %v, %v", key, err)
		}
		d.exec("DROP TABLE public.idx")
		if gone, err := ReadTable(d.ctx, d.conn, idx.OID); gone != nil || err != nil {
			t.Errorf("dropped table: %v, %v", gone, err)
		}
	})
}

// A table that somebody alters must not keep the stream from what it needs to know of it, nor from anything else.
func TestReadTablesWaitsForNoLock(t *testing.T) {
	onEach(t, func(t *testing.T, d *database) {
		d.exec("CREATE TABLE public.plain (id int PRIMARY KEY, v int DEFAULT 5 + 1, at timestamptz DEFAULT now(), n bigserial, g int GENERATED ALWAYS AS (id * 2) STORED)",
			"CREATE TABLE public.part (id int PRIMARY KEY) PARTITION BY RANGE (id)",
			"CREATE TABLE public.part1 PARTITION OF public.part FOR VALUES FROM (0) TO (10)")
		holder := connect(t, d.ctx, d.cfg)
		exec(t, holder, "BEGIN", "LOCK TABLE public.plain, public.part IN ACCESS EXCLUSIVE MODE")
		d.exec("SET statement_timeout = '5s'")
		tables := d.tables(true)
		for column, want := range map[string]string{"id": "", "v": "(5 + 1)", "at": "now()", "n": "nextval('public.plain_n_seq'::regclass)", "g": ""} {
			if c := tables["public.plain"].Column(column); c == nil || c.Default != want {
				t.Errorf("column %s: %+v, want default %s", column, c, want)
			}
		}
		if part := tables["public.part"]; len(part.Leaves) != 1 || part.Leaves[0].Name != "part1" {
			t.Errorf("%+v", part)
		}
	})
}

// What KeyFor refuses is what the server refuses to update once published, and the other way round.
func TestKeyForAgreesWithServer(t *testing.T) {
	onEach(t, func(t *testing.T, d *database) {
		for name, ddl := range map[string][]string{
			"pk":         {"CREATE TABLE public.pk (id int PRIMARY KEY, v int)"},
			"keyless":    {"CREATE TABLE public.keyless (id int, v int)"},
			"whole":      {"CREATE TABLE public.whole (id int, v int)", "ALTER TABLE public.whole REPLICA IDENTITY FULL"},
			"none":       {"CREATE TABLE public.none (id int PRIMARY KEY, v int)", "ALTER TABLE public.none REPLICA IDENTITY NOTHING"},
			"deferrable": {"CREATE TABLE public.deferrable (id int PRIMARY KEY DEFERRABLE, v int)"},
			"gone":       {"CREATE TABLE public.gone (id int NOT NULL, v int)", "CREATE UNIQUE INDEX gone_i ON public.gone (id)", "ALTER TABLE public.gone REPLICA IDENTITY USING INDEX gone_i", "DROP INDEX public.gone_i"},
			"leaf":       {"CREATE TABLE public.leaf (id int PRIMARY KEY, v int) PARTITION BY LIST (id)", "CREATE TABLE public.leaf1 PARTITION OF public.leaf DEFAULT", "ALTER TABLE public.leaf1 REPLICA IDENTITY NOTHING"},
		} {
			d.exec(ddl...)
			d.exec("INSERT INTO public." + name + " VALUES (1, 1)")
		}
		d.exec("CREATE PUBLICATION p FOR ALL TABLES WITH (publish_via_partition_root = true)")
		for name, table := range d.tables(true) {
			_, ours := KeyFor(table, nil, AllOperations)
			_, theirs := d.conn.Exec(d.ctx, "UPDATE "+table.Quoted()+" SET v = v + 1")
			if (ours == nil) != (theirs == nil) {
				t.Errorf("%s: we say %v, the server says %v", name, ours, theirs)
			}
		}
	})
}

func TestTypes(t *testing.T) {
	onEach(t, func(t *testing.T, d *database) {
		d.exec(`CREATE TYPE public."Mood" AS ENUM ('b', 'a', 'it''s')`,
			`CREATE DOMAIN public.price AS numeric(10,2)`, `CREATE DOMAIN public.cheap AS public.price CHECK (value < 10)`,
			`CREATE DOMAIN public.list AS public."Mood"[]`,
			`CREATE TABLE public.t (id int, c public.cheap, m public."Mood"[], l public.list, b box[], p point, v varchar(5), i int2vector, r int4range)`)
		table := d.tables(false)["public.t"]
		types := TypeSet{}
		if err := types.LoadTables(d.ctx, d.conn, table); err != nil {
			t.Fatal(err)
		}
		at := func(column string) *Type { return types[table.Column(column).TypeOID] }
		base, typmod := types.Base(table.Column("c").TypeOID, -1)
		if base == nil || base.Name != "numeric" || typmod != (10<<16|2)+4 || at("c").Kind != 'd' || at("c").Category != 'N' || at("c").Namespace != "public" {
			t.Errorf("domain %+v over %+v, %d", at("c"), base, typmod)
		}
		if base, typmod := types.Base(table.Column("v").TypeOID, table.Column("v").Typmod); base.Formatted != "character varying" || typmod != 9 {
			t.Errorf("%+v %d", base, typmod)
		}
		mood := types[at("m").ElemOID]
		if mood == nil || mood.Kind != 'e' || !reflect.DeepEqual(mood.Labels, []string{"b", "a", "it's"}) || at("m").Formatted != `public."Mood"[]` {
			t.Errorf("%+v of %+v", mood, at("m"))
		}
		if list, _ := types.Base(table.Column("l").TypeOID, -1); list != at("m") {
			t.Errorf("%+v", list)
		}
		if at("b").Delim != ';' || at("b").ElemOID == 0 || at("p").ElemOID != 0 || at("i").ElemOID != 0 || at("r").Kind != 'r' {
			t.Errorf("%+v %+v %+v %+v", at("b"), at("p"), at("i"), at("r"))
		}
		d.exec(`ALTER TYPE public."Mood" ADD VALUE 'c' AFTER 'b'`)
		if err := types.Load(d.ctx, d.conn, at("m").OID, 4_000_000_000); err != nil {
			t.Fatal(err)
		}
		if now := types[mood.OID]; !reflect.DeepEqual(now.Labels, []string{"b", "c", "a", "it's"}) || len(mood.Labels) != 3 || types[4_000_000_000] != nil {
			t.Errorf("reloaded %+v, before %+v", now, mood)
		}
	})
}
