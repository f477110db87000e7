package postgres

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/pipeline"
	"github.com/tidemark-cdc/tidemark/pipeline/encode"
	"github.com/tidemark-cdc/tidemark/schema/avro"
	"github.com/tidemark-cdc/tidemark/schema/registry"
	"github.com/tidemark-cdc/tidemark/schema/registry/embedded"
)

// evolution plays the pipeline with the real encoder and a real registry: a transaction's records and entries count once
// all of it is encoded.
type evolution struct {
	*pgtest
	registry *registry.Client
	enc      *encode.Encoder
	entries  map[string]offsets.Entry
	records  []string
}

// evolve opens the source against a registry whose subjects are at a level.
func evolve(p *pgtest, level string) *evolution {
	p.Helper()
	reg, err := embedded.Open(p.TempDir(), embedded.Options{})
	if err != nil {
		p.Fatal(err)
	}
	server := httptest.NewServer(reg.Handler())
	put, err := http.NewRequestWithContext(p.ctx, http.MethodPut, server.URL+"/config", strings.NewReader(`{"compatibility":"`+level+`"}`))
	if err != nil {
		p.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(put)
	if err != nil || answer.StatusCode != http.StatusOK {
		p.Fatal(answer, err)
	}
	_ = answer.Body.Close()
	client, err := registry.New(registry.Config{URLs: []string{server.URL}, AutoRegister: true})
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() {
		client.Close()
		http.DefaultClient.CloseIdleConnections()
		server.Close()
		_ = reg.Close()
	})
	return &evolution{pgtest: p, registry: client, entries: map[string]offsets.Entry{}}
}

func (e *evolution) start() *Source {
	e.Helper()
	stored := e.list()
	s := e.newSource(Options{})
	opened, err := s.Open(e.ctx, stored)
	if err != nil {
		e.Fatal(err)
	}
	e.stored = opened.Boundary
	e.Cleanup(func() { _ = s.Close(context.Background()) })
	e.enc, err = encode.New(encode.Config{Prefix: "shop", Tombstones: true, Deletes: true, Registry: e.registry, Topics: oneTopic{}})
	if err != nil {
		e.Fatal(err)
	}
	if err := e.enc.Prepare(e.ctx, 1, opened.Tables, stored); err != nil {
		e.Fatal(err)
	}
	return s
}

func (e *evolution) list() []offsets.Entry {
	out := []offsets.Entry{}
	if e.stored != nil {
		out = append(out, offsets.Entry{Partition: offsets.StreamPartition("shop"), Offset: e.stored})
	}
	for _, entry := range e.entries {
		out = append(out, entry)
	}
	return out
}

// run reads until n records were published or something blocks.
func (e *evolution) run(s *Source, n int) error {
	e.Helper()
	c := &pipeline.Chunk{}
	for len(e.records) < n {
		b, err := s.Next(e.ctx)
		if err != nil {
			return err
		}
		for from := 0; from < len(b.Changes); {
			if from, err = e.enc.Encode(e.ctx, c, &b, from, 1<<30); err != nil {
				return err
			}
		}
		if !b.Last {
			continue
		}
		for i := range c.Records {
			e.records = append(e.records, e.text(c.Records[i].Value))
		}
		for _, entry := range c.Entries {
			e.entries[fmt.Sprint(entry.Partition)] = entry
		}
		c.Reset()
		e.stored = b.Boundary
		if err := s.Ack(e.ctx, b.Boundary); err != nil {
			return err
		}
	}
	return nil
}

// text is a value's columns as JSON, as its own schema says.
func (e *evolution) text(value []byte) string {
	id, body, err := registry.ParseHeader(value)
	if err != nil {
		e.Fatal(err)
	}
	text, err := e.registry.SchemaByID(e.ctx, id)
	if err != nil {
		e.Fatal(err)
	}
	codec, err := avro.NewCodec(text)
	if err != nil {
		e.Fatal(err)
	}
	out, err := codec.AppendJSON(nil, body)
	if err != nil {
		e.Fatal(err)
	}
	columns, _, _ := strings.Cut(string(out), `,"__op"`)
	return columns + "}"
}

// Every row is decoded with the table as it was at the row's place, and published with a schema of those columns, whether the
// source ran along or was stopped through all of it. Cases 40, 146 and 147.
func TestSchemaChangesMidStream(t *testing.T) {
	onEach(t, func(p *pgtest) {
		steps := []struct{ sql, want string }{
			{"INSERT INTO a VALUES (1, 1, 'x', true, 'g')", `{"id":1,"n":1,"c":"x","b":true,"gone":"g"}`},
			{"ALTER TABLE a ADD d int NOT NULL DEFAULT 7, ADD e text; INSERT INTO a VALUES (2, 2, 'x', true, 'g')", `{"id":2,"n":2,"c":"x","b":true,"gone":"g","d":7,"e":null}`},
			{"ALTER TABLE a DROP gone; INSERT INTO a VALUES (3, 3, 'x', true)", `{"id":3,"n":3,"c":"x","b":true,"d":7,"e":null}`},
			{"ALTER TABLE a RENAME n TO m; INSERT INTO a VALUES (4, 4, 'x', true)", `{"id":4,"m":4,"c":"x","b":true,"d":7,"e":null}`},
			{"ALTER TABLE a RENAME m TO n; INSERT INTO a VALUES (5, 5, 'x', true)", `{"id":5,"n":5,"c":"x","b":true,"d":7,"e":null}`},
			{"ALTER TABLE a ALTER n TYPE bigint; INSERT INTO a VALUES (6, 6000000000, 'x', true)", `{"id":6,"n":6000000000,"c":"x","b":true,"d":7,"e":null}`},
			{"ALTER TABLE a ALTER n TYPE float8; INSERT INTO a VALUES (7, 0.5, 'x', true)", `{"id":7,"n":0.5,"c":"x","b":true,"d":7,"e":null}`},
			{"ALTER TABLE a ALTER c TYPE varchar(60); INSERT INTO a VALUES (8, 8, repeat('y', 11), true)", `{"id":8,"n":8,"c":"yyyyyyyyyyy","b":true,"d":7,"e":null}`},
			{"ALTER TABLE a ADD mood mood; INSERT INTO a VALUES (9, 9, 'x', true, 7, null, 'sad')", `{"id":9,"n":9,"c":"x","b":true,"d":7,"e":null,"mood":"sad"}`},
			{"ALTER TYPE mood ADD VALUE 'ok'", ""},
			{"INSERT INTO a VALUES (10, 10, 'x', true, 7, null, 'ok')", `{"id":10,"n":10,"c":"x","b":true,"d":7,"e":null,"mood":"ok"}`},
			{"ALTER TABLE a DROP d, ADD d int; INSERT INTO a VALUES (11, 11, 'x', true)", `{"id":11,"n":11,"c":"x","b":true,"e":null,"mood":null,"d":null}`},
			{"ALTER TABLE a ALTER c TYPE bytea USING c::bytea; INSERT INTO a VALUES (12, 12, '\\x00ff', true)", `{"id":12,"n":12,"c":"AP8=","b":true,"e":null,"mood":null,"d":null}`},
			{"DROP TABLE a", ""},
		}
		for _, stopped := range []bool{false, true} {
			p.sql("DROP TABLE IF EXISTS a", "DROP TYPE IF EXISTS mood", "CREATE TYPE mood AS ENUM ('sad')",
				"CREATE TABLE a(id int PRIMARY KEY, n int, c varchar(10), b boolean, gone text)")
			e := evolve(p, "BACKWARD")
			p.stored, p.tables = nil, map[string]offsets.Object{}
			p.raw[propSlot] = fmt.Sprintf("%s_%t", p.slot, stopped)
			s := e.start()
			var want []string
			for i, step := range steps {
				p.sql(step.sql)
				if step.want != "" {
					want = append(want, step.want)
				}
				if i == 0 || !stopped {
					if err := e.run(s, len(want)); err != nil {
						p.Fatalf("%s: %v", step.sql, err)
					}
				}
				if i == 0 && stopped {
					_ = s.Close(p.ctx)
				}
			}
			if stopped {
				s = e.start()
				if err := e.run(s, len(want)); err != nil {
					p.Fatalf("stopped through all: %v", err)
				}
			}
			_ = s.Close(p.ctx)
			if diff := cmp.Diff(want, e.records); diff != "" {
				p.Errorf("stopped %t: %s", stopped, diff)
			}
		}
	})
}

// What consumers could not follow blocks before anything of its transaction is published, with the same words in the
// process that met it and after every start, until the column is left out.
func TestTypeChangeBlocksAlike(t *testing.T) {
	onEach(t, func(p *pgtest) {
		for i, tc := range []struct{ level, from, to, value, want string }{
			{"NONE", "int", "text", "'x'", `table public.a: the type of column "n" changed from integer to text, and Avro does not promote that`},
			{"NONE", "bigint", "int", "1", `the type of column "n" changed from bigint to integer`},
			{"NONE", "numeric(10,2)", "numeric(12,2)", "1", `changed from numeric(10,2) to numeric(12,2)`},
			{"FULL", "int", "bigint", "1", `table public.a: the type of column "n" changed from integer to bigint: schema registry refuses`},
		} {
			p.raw[propColumnExclude] = ""
			p.raw[propSlot] = fmt.Sprintf("%s_%d", p.slot, i)
			p.sql("DROP TABLE IF EXISTS a", "CREATE TABLE a(id int PRIMARY KEY, n "+tc.from+")")
			e := evolve(p, tc.level)
			p.stored, p.tables = nil, map[string]offsets.Object{}
			s := e.start()
			p.sql("INSERT INTO a VALUES (1, 1)")
			if err := e.run(s, 1); err != nil {
				p.Fatal(err)
			}
			p.sql("BEGIN; INSERT INTO a VALUES (2, 1); ALTER TABLE a ALTER n TYPE " + tc.to + "; INSERT INTO a VALUES (3, " + tc.value + "); COMMIT")
			var before error
			for start := range 3 {
				err := e.run(s, 3)
				p.wantError(err, connectors.ClassBlock, tc.want)
				if before != nil && err.Error() != before.Error() {
					p.Errorf("start %d blocks with %q, before that %q", start, err, before)
				}
				before = err
				if len(e.records) != 1 {
					p.Fatalf("published %v", e.records[1:])
				}
				_ = s.Close(p.ctx)
				s = e.start()
			}
			_ = s.Close(p.ctx)
			p.raw[propColumnExclude] = `public\.a\.n` // the way out that the message names
			s = e.start()
			if err := e.run(s, 3); err != nil {
				p.Fatal(err)
			}
			if diff := cmp.Diff([]string{`{"id":2}`, `{"id":3}`}, e.records[1:]); diff != "" {
				p.Error(diff)
			}
			_ = s.Close(p.ctx)
		}
	})
}
