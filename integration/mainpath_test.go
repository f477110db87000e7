package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-cdc/tidemark/integration/check"
	"github.com/tidemark-cdc/tidemark/integration/harness"
)

func allMajors() []int {
	all := append(fullMajors(), majors("TIDEMARK_MAIN_MAJORS", "15,16,17")...)
	slices.Sort(all)
	return slices.Compact(all)
}

var mainSetup = []string{
	`CREATE TABLE plain(id int PRIMARY KEY, n bigint, s text, ok boolean, d numeric(12,2), at timestamptz, raw bytea, u uuid, day date, tags int[], secret text)`,
	`CREATE TABLE pair(b text, a int, n int, PRIMARY KEY (a, b))`,
	`CREATE TABLE wide(id int PRIMARY KEY, n int, big text); ALTER TABLE wide ALTER big SET STORAGE EXTERNAL`,
	`CREATE TABLE wholly(id int PRIMARY KEY, n int, big text); ALTER TABLE wholly ALTER big SET STORAGE EXTERNAL; ALTER TABLE wholly REPLICA IDENTITY FULL`,
	`CREATE TABLE keyless(n int, s text); ALTER TABLE keyless REPLICA IDENTITY FULL`,
	`CREATE TABLE chosen(id int PRIMARY KEY, region text NOT NULL, n int); ALTER TABLE chosen REPLICA IDENTITY FULL`,
	`CREATE SCHEMA "Схема"`,
	`CREATE TABLE "Схема"."Таблица 1"("Ключ" int PRIMARY KEY, "naïve" text, "Naïve" text)`,
	`CREATE TABLE parted(id int, at int, s text, PRIMARY KEY (id, at)) PARTITION BY RANGE (at)`,
	`CREATE TABLE parted_low PARTITION OF parted FOR VALUES FROM (0) TO (100)`,
	`CREATE TABLE parted_high PARTITION OF parted FOR VALUES FROM (100) TO (200)`,
	`CREATE TABLE unwatched(id int PRIMARY KEY, n int)`,
	`CREATE TABLE outside(id int PRIMARY KEY, n int)`,
}

const mainTables = `plain, pair, wide, wholly, keyless, chosen, "Схема"."Таблица 1", parted, unwatched`

var mainWork = []string{
	`INSERT INTO plain VALUES (1, 9007199254740993, 'a', true, 12.50, '2026-11-30 10:00:00.123456+00', '\x00ff', '6f8c3a52-0c1f-4d38-9f7e-0a1b2c3d4e5f', '2026-11-30', '{1,NULL,3}'), (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)`,
	`UPDATE plain SET n = -1, s = 'é' WHERE id = 1`,
	`UPDATE plain SET id = 3 WHERE id = 2`,
	`DELETE FROM plain WHERE id = 3`,
	`INSERT INTO pair VALUES ('x', 1, 1), ('y', 1, 2)`,
	`UPDATE pair SET n = 3 WHERE b = 'x'`,
	`UPDATE pair SET b = 'z' WHERE b = 'x'`,
	`DELETE FROM pair WHERE b = 'y'`,
	`INSERT INTO wide SELECT 1, 0, repeat('w', 9000)`, `UPDATE wide SET n = 1`, `UPDATE wide SET id = 2`, `UPDATE wide SET big = 'small'`,
	`INSERT INTO wholly SELECT 1, 0, repeat('W', 9000)`, `UPDATE wholly SET n = 1`, `UPDATE wholly SET id = 2`, `INSERT INTO wholly VALUES (3, 3, 'x')`, `DELETE FROM wholly WHERE id = 3`,
	`INSERT INTO keyless VALUES (1, 'a'), (1, 'a'), (2, NULL)`, `UPDATE keyless SET n = 9 WHERE n = 1`, `DELETE FROM keyless WHERE n = 2`,
	`INSERT INTO chosen VALUES (1, 'north', 10), (2, 'south', 20)`, `UPDATE chosen SET n = n + 1`,
	`INSERT INTO "Схема"."Таблица 1" VALUES (1, 'eins', 'EINS'), (2, 'zwei', NULL)`, `UPDATE "Схема"."Таблица 1" SET "Ключ" = 7 WHERE "Ключ" = 2`, `DELETE FROM "Схема"."Таблица 1" WHERE "Ключ" = 1`,
	`INSERT INTO parted VALUES (1, 5, 'low'), (2, 150, 'high')`, `UPDATE parted SET s = 'LOW' WHERE id = 1`, `UPDATE parted SET at = 160 WHERE id = 1`,
	`INSERT INTO unwatched VALUES (1, 1)`, `INSERT INTO outside VALUES (1, 1)`, // filtered by us, filtered by the publication
	`BEGIN; SAVEPOINT s; INSERT INTO plain(id) VALUES (99); ROLLBACK TO s; COMMIT`, // empty
	`BEGIN; INSERT INTO plain(id) VALUES (98); ROLLBACK`,
	`BEGIN; SELECT pg_logical_emit_message(true, 'app', 'm1'); INSERT INTO plain(id, s) VALUES (10, 'after the message'); SELECT pg_logical_emit_message(true, 'app', 'm2'); UPDATE plain SET s = 'again' WHERE id = 10; COMMIT`,
	`SELECT pg_logical_emit_message(false, 'app', 'alone')`,
	`BEGIN; INSERT INTO plain(id) VALUES (11); INSERT INTO unwatched VALUES (2, 2); INSERT INTO pair VALUES ('q', 5, 5); SAVEPOINT a; UPDATE wide SET n = 50; RELEASE a; INSERT INTO keyless VALUES (5, 'five'); DELETE FROM plain WHERE id = 11; COMMIT`,
}

// The main path, on every version: what reaches the topics is, field for field, what the log says.
func TestMainPath(t *testing.T) {
	t.Parallel()
	on(t, allMajors(), func(t *testing.T, major int) {
		publication := "FOR TABLE " + mainTables + " WITH (publish_via_partition_root = true)"
		if major >= 15 {
			publication = strings.NewReplacer("plain,", "plain(id, n, s, ok, d, at, raw, u, day, tags),", "chosen,", "chosen WHERE (region <> 'south'),").Replace(publication)
		}
		s := stream(t, major, harness.Options{Setup: mainSetup, Publication: publication, Connector: map[string]string{
			"table.exclude.list": `public\.unwatched`, "column.exclude.list": `public\.plain\.(raw|secret)`, "message.key.columns": `public\.chosen:region,id`,
		}})
		w := s.Run()
		for _, text := range mainWork {
			s.SQL(text)
			s.SlotNotAhead()
		}
		expect := harness.Expect{
			Captured: func(_, table string) bool { return table != "unwatched" },
			Column:   func(_, table, column string) bool { return table != "plain" || column != "raw" && column != "secret" },
			Keys:     map[string][]string{"public.chosen": {"region", "id"}},
		}
		res := s.Finish(w, expect)
		if res.Changes < 50 {
			t.Errorf("only %d changes: the workload is not what it was", res.Changes)
		}
		s.SameRows("public", "plain", "id", "n", "s", "d", "at", "u", "day")
		s.SameRows("public", "pair", "a", "b", "n")
		s.SameRows("public", "wide", "id", "n", "big")
		s.SameRows("public", "wholly", "id", "n", "big")
		s.SameRows("public", "keyless", "n", "s")
		s.SameRows("Схема", "Таблица 1", "Ключ", "naïve", "Naïve")
		s.SameRows("public", "parted", "id", "at", "s")
		if major >= 15 {
			s.SameRowsIn(s.Topic("public", "chosen"), "chosen WHERE region <> 'south'", "id", "region", "n")
		} else {
			s.SameRows("public", "chosen", "id", "region", "n")
		}
		records := s.Records(harness.Committed)
		topics := s.Topics()
		if want := 9; len(topics) != want { // 8 tables and the messages
			t.Errorf("topics %v, want %d", topics, want)
		}
		checkMetadata(t, s, records)
		checkKeyChanges(t, s, records)
		checkStored(t, s, major)
	})
}

// checkMetadata checks keys, headers and timestamps one can say beforehand.
func checkMetadata(t *testing.T, s *harness.Stream, records []check.Record) {
	t.Helper()
	for i := range records {
		r := &records[i]
		if r.Gen != 1 {
			t.Fatalf("%s: generation %d", r, r.Gen)
		}
		if r.Value == nil {
			continue
		}
		v, err := s.Decoder.Decode(r.Value)
		if err != nil {
			t.Fatal(err)
		}
		if r.Timestamp != v.TsMicros/1000 {
			t.Errorf("%s: timestamp %d, commit time %d µs", r, r.Timestamp, v.TsMicros)
		}
		if r.Topic == s.MessageTopic() {
			continue
		}
		keyless := r.Topic == s.Topic("public", "keyless")
		if (r.Key == nil) != keyless {
			t.Errorf("%s: key %x", r, r.Key)
		}
		if r.Key == nil {
			continue
		}
		text, err := s.Decoder.SchemaText(r.Key)
		if err != nil {
			t.Fatal(err)
		}
		if r.Topic == s.Topic("public", "pair") && strings.Index(text, `"a"`) > strings.Index(text, `"b"`) {
			t.Errorf("key columns are not in key order: %s", text)
		}
		if r.Topic == s.Topic("public", "chosen") && !strings.Contains(text, `"region"`) {
			t.Errorf("key schema of chosen is not message.key.columns': %s", text)
		}
		if strings.Contains(text, "tidemark.") || strings.Contains(text, "default") {
			t.Errorf("the key's schema holds more than names and types: %s", text)
		}
	}
}

// checkKeyChanges: a key change is delete, tombstone, create; the create names the old key.
func checkKeyChanges(t *testing.T, s *harness.Stream, records []check.Record) {
	t.Helper()
	n := 0
	for i := range records {
		r := &records[i]
		if r.OldKey == nil {
			continue
		}
		n++
		found := false
		for j := range records {
			d := &records[j]
			if d.Op == 'd' && d.Value != nil && d.Topic == r.Topic && d.LSN == r.LSN && d.Seq == r.Seq-1 && bytes.Equal(d.Key, r.OldKey) {
				found = true
			}
		}
		if r.Op != 'c' || bytes.Equal(r.Key, r.OldKey) || !found {
			t.Errorf("%s: a key change without its delete", r)
		}
	}
	if want := 5; n != want { // plain, pair, wide, wholly, "Таблица 1"; a row that changes its partition is deleted and inserted
		t.Errorf("%d key changes, want %d", n, want)
	}
}

// checkStored checks the offsets topic and the activation record.
func checkStored(t *testing.T, s *harness.Stream, major int) {
	t.Helper()
	stored := s.Offsets()
	one := stored[`{"server":"`+s.Name+`"}`]
	if one == nil {
		t.Fatalf("no entry of the stream in %v", stored)
	}
	if one["group"] != "group-"+s.Name || one["connector"] != s.Name || one["system_id"] != s.Query("SELECT system_identifier::text FROM pg_control_system()") {
		t.Errorf("stored offset %v", one)
	}
	tables := 0
	for key, value := range stored {
		if !strings.Contains(key, `"kind":"table"`) {
			continue
		}
		tables++
		if value["topic"] == nil || value["partitions"] != 3.0 {
			t.Errorf("%s: %v", key, value)
		}
	}
	if tables != 8 {
		t.Errorf("%d tables stored, want 8", tables)
	}
	raw := s.Raw(harness.Committed, s.GenerationsTopic())
	if len(raw) != 1 {
		t.Fatalf("%d activation records", len(raw))
	}
	var activation map[string]any
	if err := json.Unmarshal(raw[0].Value, &activation); err != nil || activation["gen"] != 1.0 || activation["baseline"] == nil || activation["start"] == nil {
		t.Errorf("activation record %s: %v", raw[0].Value, err)
	}
	code, out, errs := s.Ctl("offsets", "get", s.WorkerFile, s.ConfigFile)
	if code != 0 || !strings.Contains(out, fmt.Sprintf(`"boundary_lsn":%q`, one["boundary_lsn"])) {
		t.Errorf("offsets get: code %d\n%s%s", code, out, errs)
	}
}
