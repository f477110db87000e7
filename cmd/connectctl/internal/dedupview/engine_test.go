package dedupview

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Python packages the tests run SQL with, and the versions they are written for.
var packages = map[string][]string{
	"duckdb":     {"duckdb==2.0.1"},
	"clickhouse": {"chdb==4.4.0", "chdb-core==26.9.0"},
	"grammar":    {"sqlglot==30.30.0"},
	"translated": {"duckdb==2.0.1", "sqlglot==30.30.0"},
}

// database runs a script and returns the rows of a query; nothing of the script stays. A nil one skips its test.
type database struct {
	dialect string
	run     func(script []string, query string) ([]map[string]any, error)
}

// onEach runs a test on every database there is.
func onEach(t *testing.T, test func(t *testing.T, db database)) {
	t.Run("postgres", func(t *testing.T) {
		urls := os.Getenv("TIDEMARK_TEST_PG_URLS")
		if urls == "" {
			t.Skip("set TIDEMARK_TEST_PG_URLS to superuser URLs of PostgreSQL servers, comma-separated")
		}
		for _, u := range strings.Split(urls, ",") {
			t.Run("", func(t *testing.T) { test(t, openPostgres(t, strings.TrimSpace(u))) })
		}
	})
	others := map[string]string{"duckdb": "duckdb", "clickhouse": "clickhouse", "snowflake": "translated", "bigquery": "translated", "spark": "translated"}
	for _, name := range slices.Sorted(maps.Keys(others)) {
		t.Run(name, func(t *testing.T) {
			p, engine := python(t, others[name]), others[name]
			if engine == "translated" {
				engine += ":" + name
			}
			test(t, database{name, func(script []string, query string) ([]map[string]any, error) {
				return p.ask(engine, append([]string{"DROP VIEW IF EXISTS v", "DROP TABLE IF EXISTS loaded", "DROP TABLE IF EXISTS gens"}, script...), query)
			}})
		})
	}
}

// openPostgres works in a transaction that is rolled back.
func openPostgres(t *testing.T, url string) database {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return database{"postgres", func(script []string, query string) (rows []map[string]any, err error) {
		tx, err := conn.Begin(ctx)
		if err != nil {
			return nil, err
		}
		defer func() { _ = tx.Rollback(ctx) }()
		schema := fmt.Sprintf("dedupview_%d", os.Getpid())
		if _, err := tx.Exec(ctx, "CREATE SCHEMA "+schema+"; SET LOCAL search_path = "+schema); err != nil {
			return nil, err
		}
		for _, sql := range script {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return nil, err
			}
		}
		var text []byte
		if err := tx.QueryRow(ctx, "SELECT COALESCE(json_agg(row_to_json(q)), '[]')::text FROM ("+query+") q").Scan(&text); err != nil {
			return nil, err
		}
		return rows, decode(text, &rows)
	}}
}

func decode(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d.Decode(into)
}

// interpreter is a Python process that runs testdata/engine.py.
type interpreter struct {
	in  io.Writer
	out *bufio.Reader
}

func (p *interpreter) ask(engine string, script []string, query string) ([]map[string]any, error) {
	b, err := json.Marshal(map[string]any{"engine": engine, "script": script, "query": query})
	if err != nil {
		return nil, err
	}
	if _, err := p.in.Write(append(b, '\n')); err != nil {
		return nil, err
	}
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	var answer struct {
		Rows  []map[string]any
		Error string
	}
	if err := decode(line, &answer); err != nil {
		return nil, err
	}
	if answer.Error != "" {
		return nil, fmt.Errorf("%s", answer.Error)
	}
	return answer.Rows, nil
}

// python starts an interpreter that has the packages of an engine, for one test.
func python(t *testing.T, engine string) *interpreter {
	t.Helper()
	exe, why := interpreterWith(engine)
	if why != "" {
		t.Skip(why)
	}
	cmd := exec.Command(exe, "-u", filepath.Join("testdata", "engine.py"))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("python: %v", err)
		}
	})
	return &interpreter{in, bufio.NewReaderSize(out, 1<<20)}
}

var venv sync.Mutex

// interpreterWith returns the Python of an environment in the cache folder, made on first use, that has
// the packages of an engine; or why there is none.
func interpreterWith(engine string) (exe, why string) {
	venv.Lock()
	defer venv.Unlock()
	dir := filepath.Join(cacheFolder(), "python-dedupview")
	exe = filepath.Join(dir, "bin", "python")
	want := strings.Join(packages[engine], " ")
	ready := filepath.Join(dir, "."+engine)
	has := func() bool { b, err := os.ReadFile(ready); return err == nil && string(b) == want }
	if has() {
		return exe, ""
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Sprintf("no folder for Python's packages: %v", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", fmt.Sprintf("no folder for Python's packages: %v", err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Sprintf("lock %s: %v", lock.Name(), err)
	}
	if has() {
		return exe, ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	steps := [][]string{append([]string{exe, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps"}, packages[engine]...)}
	if _, err := os.Stat(exe); err != nil {
		steps = append([][]string{{"python3", "-m", "venv", dir}}, steps...)
	}
	for _, s := range steps {
		if out, err := exec.CommandContext(ctx, s[0], s[1:]...).CombinedOutput(); err != nil {
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			return "", fmt.Sprintf("%s is not to be had: %v: %s", want, err, lines[len(lines)-1])
		}
	}
	if err := os.WriteFile(ready, []byte(want), 0o644); err != nil {
		return "", fmt.Sprintf("no folder for Python's packages: %v", err)
	}
	return exe, ""
}

// cacheFolder is where integration/env keeps what it fetches.
func cacheFolder() string {
	if dir := os.Getenv("TIDEMARK_CACHE"); dir != "" {
		return filepath.Join(dir, "env")
	}
	if os.Getuid() == 0 {
		return "/var/cache/tidemark/env"
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return filepath.Join(os.TempDir(), "tidemark", "env")
	}
	return filepath.Join(dir, "tidemark", "env")
}
