package metrics

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/integration/docs"
	"github.com/tidemark-cdc/tidemark/pipeline"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scrape returns our metrics as an HTTP client gets them.
func scrape(t *testing.T, address string) map[string]string {
	t.Helper()
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %v", resp.Status, err)
	}
	out := map[string]string{}
	for line := range strings.Lines(string(body)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && !strings.HasPrefix(line, "#") {
			out[name] = value
		}
	}
	return out
}

func serve(t *testing.T, r *Registry) *Server {
	t.Helper()
	s, err := r.Serve([]string{"http://127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// TestEndpoint: what the hooks are told is what a scrape says, for each connector apart.
func TestEndpoint(t *testing.T) {
	r := New()
	r.now = func() time.Time { return time.Unix(1000, 0) }
	s := serve(t, r)
	shop, idle := r.Connector("shop"), r.Connector("idle")
	for range 2 {
		shop.TransactionCommitted(pipeline.Committed{Records: 30, Bytes: 500, Transactions: 3, Duration: 30 * time.Millisecond, SourceTime: 998_500_000})
	}
	shop.TransactionCommitted(pipeline.Committed{Duration: time.Millisecond}) // a boundary alone
	shop.BoundaryAcknowledged(nil)
	shop.State(connectors.State{Name: "RUNNING"})
	rows := []Table{{Name: "public.a", Rows: 10, Total: 100, Again: 2, Chunk: 512, Open: true}, {Name: "public.b", Rows: 7, Total: -1}, {Name: "public.b", Rows: 8}}
	shop.Tables(func() []Table { return rows })
	idle.State(connectors.State{Name: "WAITING", Reason: "not shown"})
	got := scrape(t, s.Addresses[0])
	want := map[string]string{
		`tidemark_transactions_total{connector="shop"}`: "6", `tidemark_records_total{connector="shop"}`: "60", `tidemark_bytes_total{connector="shop"}`: "1000",
		`tidemark_acknowledged_total{connector="shop"}`: "1", `tidemark_acknowledged_total{connector="idle"}`: "0", `tidemark_records_total{connector="idle"}`: "0",
		`tidemark_commit_duration_seconds_count{connector="shop"}`: "3", `tidemark_commit_duration_seconds_bucket{connector="shop",le="0.01"}`: "1",
		`tidemark_commit_duration_seconds_bucket{connector="shop",le="0.05"}`: "3", `tidemark_lag_seconds{connector="shop"}`: "1.5", `tidemark_lag_seconds{connector="idle"}`: "",
		`tidemark_newest_commit_timestamp_seconds{connector="shop"}`: "998.5", `tidemark_acknowledged_timestamp_seconds{connector="shop"}`: "1000",
		`tidemark_connector_state{connector="shop",state="RUNNING"}`: "1", `tidemark_connector_state{connector="shop",state="STARTING"}`: "0", `tidemark_connector_state{connector="idle",state="WAITING"}`: "1",
		`tidemark_snapshot_rows{connector="shop",table="public.a"}`: "10", `tidemark_snapshot_rows_estimated{connector="shop",table="public.a"}`: "100",
		`tidemark_snapshot_rows_again_total{connector="shop",table="public.a"}`: "2", `tidemark_snapshot_chunk_rows{connector="shop",table="public.a"}`: "512",
		`tidemark_snapshot_done{connector="shop",table="public.a"}`: "0", `tidemark_snapshot_done{connector="shop",table="public.b"}`: "1",
		`tidemark_snapshot_rows{connector="shop",table="public.b"}`: "7", `tidemark_snapshot_rows_estimated{connector="shop",table="public.b"}`: "",
	}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s is %q, want %q", name, got[name], value)
		}
	}
	shop.Tables(nil)
	for name := range scrape(t, s.Addresses[0]) {
		if strings.HasPrefix(name, "tidemark_snapshot") {
			t.Errorf("%s is still there", name)
		}
	}
}

// TestListeners: what is no listener, and an address that is taken, are said; nothing stays open then.
func TestListeners(t *testing.T) {
	for _, bad := range []string{"127.0.0.1:9404", "https://127.0.0.1:9404", "http://127.0.0.1", "http://127.0.0.1:9404/metrics", "http://u:p@h:1", "http://%", ""} {
		if err := CheckListener(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	for _, good := range []string{"http://127.0.0.1:9404", "http://:9404", "http://[::1]:9404/", "http://0.0.0.0:0"} {
		if err := CheckListener(good); err != nil {
			t.Error(err)
		}
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	_ = free.Close()
	_, err = New().Serve([]string{"http://" + address, "http://" + taken.Addr().String()})
	if err == nil || !strings.Contains(err.Error(), "cannot listen at "+taken.Addr().String()+": bind: address already in use") {
		t.Error(err)
	}
	s, err := New().Serve([]string{"http://" + address})
	if err != nil {
		t.Fatalf("the first listener was left open: %v", err)
	}
	s.Close()
}

// TestDocumentedMetrics: the page lists the metrics there are.
func TestDocumentedMetrics(t *testing.T) {
	r := New()
	c := r.Connector("shop")
	c.TransactionCommitted(pipeline.Committed{SourceTime: 1})
	c.BoundaryAcknowledged(nil)
	c.Tables(func() []Table { return []Table{{Name: "public.a"}} })
	families, err := r.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("| metric | type | labels | |\n| --- | --- | --- | --- |\n")
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "tidemark_") {
			continue
		}
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.GetName(), strings.ToLower(f.GetType().String()), strings.Join(labels, ", "), docs.Cell(f.GetHelp()))
	}
	docs.Section(t, "docs/operations.md", "metrics", b.String())
}
