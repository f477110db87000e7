package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

const retention = 3 * time.Second

type recorder struct {
	pg, kafka, registry, connect, dir string
}

func (r *recorder) run(ctx context.Context) (err error) {
	b, err := os.ReadFile(filepath.Join(r.dir, "cases.json"))
	if err != nil {
		return err
	}
	cases := map[string]map[string]string{}
	if err := json.Unmarshal(b, &cases); err != nil {
		return fmt.Errorf("cases.json: %w", err)
	}
	names := slices.Sorted(maps.Keys(cases))
	conn, err := r.prepare(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	run := fmt.Sprintf("%x", time.Now().Unix()) // topics are never used twice
	defer func() {
		for _, n := range names {
			_ = r.request(context.WithoutCancel(ctx), http.MethodDelete, "/connectors/dbz-golden-"+n, nil)
		}
	}()
	for _, n := range names {
		if err := r.create(ctx, n, run, cases[n]); err != nil {
			return err
		}
	}
	if err := r.awaitSlots(ctx, conn, len(names)); err != nil {
		return err
	}
	if err := r.script(ctx, conn, "changes.sql"); err != nil {
		return err
	}
	for _, n := range names {
		if err := r.consume(ctx, n, prefix(n, run)); err != nil {
			return fmt.Errorf("case %s: %w", n, err)
		}
	}
	if err := r.wal(ctx, conn); err != nil {
		return err
	}
	if err := r.catalogue(ctx, conn); err != nil {
		return err
	}
	for _, n := range names {
		_ = r.request(ctx, http.MethodDelete, "/connectors/dbz-golden-"+n, nil)
	}
	return r.dropSlots(ctx, conn)
}

func (r *recorder) dropSlots(ctx context.Context, conn *pgx.Conn) error {
	var err error
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(time.Second) {
		if _, err = conn.Exec(ctx, "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = current_database()"); err == nil {
			return nil
		}
	}
	return err
}

// prefix is the case's topic.prefix, which the recording shows as "golden".
func prefix(name, run string) string {
	return "dbzgolden" + run + strings.ReplaceAll(name, "-", "")
}

func (r *recorder) create(ctx context.Context, name, run string, props map[string]string) error {
	u, err := url.Parse(r.pg)
	if err != nil {
		return err
	}
	password, _ := u.User.Password()
	cfg := map[string]string{
		"connector.class": "io.debezium.connector.postgresql.PostgresConnector", "tasks.max": "1",
		"database.hostname": u.Hostname(), "database.port": u.Port(), "database.user": u.User.Username(), "database.password": password,
		"database.dbname": database, "topic.prefix": prefix(name, run), "plugin.name": "pgoutput",
		"slot.name": "dbz_golden_" + strings.ReplaceAll(name, "-", "_"), "publication.name": publication, "publication.autocreate.mode": "disabled",
		"snapshot.mode": "no_data", "table.exclude.list": "public.excluded", "message.key.columns": "public.keyed:a,b",
		"topic.creation.default.partitions": "1", "topic.creation.default.replication.factor": "1",
		"event.processing.failure.handling.mode": "warn",
	}
	for _, side := range []string{"key.converter", "value.converter"} {
		cfg[side] = "org.apache.kafka.connect.json.JsonConverter"
		cfg[side+".schemas.enable"] = "true"
		if name == "avro" {
			cfg[side] = "io.apicurio.registry.utils.converter.AvroConverter"
			cfg[side+".apicurio.registry.url"] = r.registry + "/apis/registry/v2"
			for k, v := range map[string]string{"auto-register": "true", "find-latest": "true", "headers.enabled": "false", "as-confluent": "true", "use-id": "contentId"} {
				cfg[side+".apicurio.registry."+k] = v
			}
			delete(cfg, side+".schemas.enable")
		}
	}
	maps.Copy(cfg, props)
	return r.request(ctx, http.MethodPost, "/connectors", map[string]any{"name": "dbz-golden-" + name, "config": cfg})
}

func (r *recorder) request(ctx context.Context, method, path string, body any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, r.connect+path, bytes.NewReader(b))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		text, _ := io.ReadAll(resp.Body)
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, text)
	}
	return nil
}

// get reads a registry's answer.
func (r *recorder) get(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.registry+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}
