package embedded

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := childDir(); dir != "" {
		runChild(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

func open(t *testing.T, dir string) *Registry {
	t.Helper()
	r, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// call sends a request to the handler and gives status and body.
func call(t *testing.T, r *Registry, request, body string) (int, string) {
	t.Helper()
	method, path, _ := strings.Cut(request, " ")
	req := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	w := httptest.NewRecorder()
	r.Handler().ServeHTTP(w, req)
	if got := w.Header().Get("Content-Type"); got != contentType {
		t.Errorf("%s: content type %q", request, got)
	}
	return w.Code, strings.TrimSpace(w.Body.String())
}

func schemaBody(t *testing.T, text string) string {
	t.Helper()
	b, err := json.Marshal(map[string]string{"schema": text})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// register returns the id that subject's new schema got.
func register(t *testing.T, r *Registry, subject, text string) int {
	t.Helper()
	status, body := call(t, r, "POST /subjects/"+url.PathEscape(subject)+"/versions", schemaBody(t, text))
	var out struct{ ID int }
	if err := json.Unmarshal([]byte(body), &out); err != nil || status != 200 || out.ID == 0 {
		t.Fatalf("register: %d %s", status, body)
	}
	return out.ID
}

func numbered(n int) string { return record(field(fmt.Sprintf("f%d", n), optional, nullDefault)) }

type step struct {
	request, body string
	status        int
	want          string // the whole body, or a part of it after "~"
}

func play(t *testing.T, r *Registry, steps []step) {
	t.Helper()
	for _, s := range steps {
		status, body := call(t, r, s.request, s.body)
		part, isPart := strings.CutPrefix(s.want, "~")
		if status != s.status || (isPart && !strings.Contains(body, part)) || (!isPart && body != s.want) {
			t.Errorf("%s %s\n got %d %s\nwant %d %s", s.request, s.body, status, body, s.status, s.want)
		}
	}
}

func TestAPI(t *testing.T) {
	r := open(t, t.TempDir())
	first, second := schemaBody(t, `"int"`), schemaBody(t, `"long"`)
	play(t, r, []step{
		{"GET /", "", 200, `{}`},
		{"GET /subjects", "", 200, `[]`},
		{"GET /schemas/types", "", 200, `["AVRO"]`},
		{"GET /config", "", 200, `{"compatibilityLevel":"BACKWARD"}`},
		{"POST /subjects/s", first, 404, `{"error_code":40401,"message":"Subject 's' not found."}`},
		{"POST /compatibility/subjects/s/versions?verbose=true", first, 200, `{"is_compatible":true,"messages":[]}`},
		{"POST /compatibility/subjects/s/versions/latest", first, 404, "~40401"},
		{"POST /subjects/s/versions", first, 200, `{"id":1}`},
		{"POST /subjects/s/versions", schemaBody(t, ` { "type" : "int" } `), 200, `{"id":2}`},
		{"POST /subjects/s/versions", schemaBody(t, `{"type":"int"}`), 200, `{"id":2}`},
		{"POST /subjects/s/versions", first, 200, `{"id":1}`},
		{"POST /subjects/s/versions?normalize=true", second, 200, `{"id":3}`},
		{"POST /subjects/t/versions", second, 200, `{"id":3}`},
		{"POST /subjects/s/versions", schemaBody(t, `"string"`), 409, "~details: [(root): version 3 has long, the new schema has string"},
		{"POST /subjects/s", second, 200, `{"subject":"s","version":3,"id":3,"schema":"\"long\""}`},
		{"POST /subjects/s", schemaBody(t, `"string"`), 404, `{"error_code":40403,"message":"Schema not found"}`},
		{"GET /subjects", "", 200, `["s","t"]`},
		{"GET /subjects?subjectPrefix=t", "", 200, `["t"]`},
		{"GET /subjects?limit=1", "", 200, `["s"]`},
		{"GET /subjects?offset=1&limit=5", "", 200, `["t"]`},
		{"GET /subjects/s/versions", "", 200, `[1,2,3]`},
		{"GET /subjects/x/versions", "", 404, "~40401"},
		{"GET /subjects/s/versions/1", "", 200, `{"subject":"s","version":1,"id":1,"schema":"\"int\""}`},
		{"GET /subjects/s/versions/latest/schema", "", 200, `"long"`},
		{"GET /subjects/s/versions/9", "", 404, "~40402"},
		{"GET /subjects/s/versions/zero", "", 422, "~42202"},
		{"GET /schemas/ids/3?fetchMaxId=false&subject=s", "", 200, `{"schema":"\"long\""}`},
		{"GET /schemas/ids/3/schema", "", 200, `"long"`},
		{"GET /schemas/ids/3/versions", "", 200, `[{"subject":"s","version":3},{"subject":"t","version":1}]`},
		{"GET /schemas/ids/3/subjects", "", 200, `["s","t"]`},
		{"GET /schemas/ids/9", "", 404, "~40403"},
		{"GET /schemas/ids/x", "", 404, "~not a schema id"},
		{"POST /compatibility/subjects/s/versions/1?verbose=true", schemaBody(t, `"string"`), 200, `~"is_compatible":false`},
		{"POST /compatibility/subjects/s/versions/1", first, 200, `{"is_compatible":true}`},
		{"POST /compatibility/subjects/s/versions/latest", first, 200, `{"is_compatible":false}`},
		{"PATCH /subjects", "", 404, "~has no PATCH /subjects"},
	})
}

func TestAPIRefusesBadInput(t *testing.T) {
	r := open(t, t.TempDir())
	const at = "POST /subjects/s/versions"
	play(t, r, []step{
		{at, `{"schema":"{\"type\":\"recor\"}"}`, 422, "~42201"},
		{at, `{"schema":""}`, 422, "~42201"},
		{at, `{}`, 422, "~42201"},
		{at, schemaBody(t, record(field("a", `"int"`), field("a", `"int"`))), 422, "~42201"},
		{at, schemaBody(t, record(field("a", `"int"`, `"default":"x"`))), 422, "~42201"},
		{at, schemaBody(t, `"int" trailing`), 422, "~42201"},
		{at, `{"schema":"{}","schemaType":"PROTOBUF"}`, 422, "~PROTOBUF"},
		{at, `{"schema":"\"int\"","references":[{"name":"x","subject":"y","version":1}]}`, 422, "~references"},
		{at, `not json`, 400, "~not the JSON"},
		{at, `{"schema":"` + strings.Repeat("x", maxBody) + `"}`, 422, "~42209"},
		{"PUT /config", `{"compatibility":"SIDEWAYS"}`, 422, "~42203"},
		{"PUT /mode", `{"mode":"IMPORT"}`, 422, "~42204"},
		{"GET /subjects", "", 200, "[]"},
	})
}

func TestLevelsAndModes(t *testing.T) {
	dir := t.TempDir()
	r, err := Open(dir, Options{Level: "FULL"})
	if err != nil {
		t.Fatal(err)
	}
	register(t, r, "s", `"int"`)
	play(t, r, []step{
		{"GET /config", "", 200, `{"compatibilityLevel":"FULL"}`},
		{"GET /config/s", "", 404, "~40408"},
		{"GET /config/s?defaultToGlobal=true", "", 200, `{"compatibilityLevel":"FULL"}`},
		{"PUT /config/s", `{"compatibility":"NONE"}`, 200, `{"compatibility":"NONE"}`},
		{"PUT /config", `{"compatibility":"backward_transitive"}`, 200, `{"compatibility":"BACKWARD_TRANSITIVE"}`},
		{"PUT /config/u", `{"compatibility":"FULL"}`, 200, `{"compatibility":"FULL"}`},
		{"DELETE /config/u", "", 200, `{"compatibility":"FULL"}`},
		{"DELETE /config/u", "", 404, "~40408"},
		{"GET /mode", "", 200, `{"mode":"READWRITE"}`},
		{"PUT /mode", `{"mode":"READONLY"}`, 200, `{"mode":"READONLY"}`},
		{"PUT /mode/w", `{"mode":"READWRITE"}`, 200, `{"mode":"READWRITE"}`},
		{"GET /mode/s", "", 404, "~40409"},
		{"GET /subjects", "", 200, `["s"]`},
	})
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	play(t, open(t, dir), []step{
		{"GET /config", "", 200, `{"compatibilityLevel":"BACKWARD_TRANSITIVE"}`},
		{"GET /config/s", "", 200, `{"compatibilityLevel":"NONE"}`},
		{"GET /config/u", "", 404, "~40408"},
		{"POST /subjects/s/versions", schemaBody(t, `"string"`), 422, "~42205"},
		{"POST /subjects/s/versions", schemaBody(t, `"int"`), 200, `{"id":1}`},
		{"POST /subjects/w/versions", schemaBody(t, `"string"`), 200, `{"id":2}`},
		{"DELETE /mode/w", "", 200, `{"mode":"READWRITE"}`},
		{"PUT /mode", `{"mode":"READWRITE"}`, 200, `{"mode":"READWRITE"}`},
		{"POST /subjects/s/versions", schemaBody(t, `"boolean"`), 200, `{"id":3}`}, // NONE
	})
	if _, err := Open(t.TempDir(), Options{Level: "sideways"}); err == nil || !strings.Contains(err.Error(), "FULL_TRANSITIVE") {
		t.Errorf("unknown level: %v", err)
	}
}

func TestDelete(t *testing.T) {
	dir := t.TempDir()
	r, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	register(t, r, "s", `"int"`)
	register(t, r, "s", `"long"`)
	play(t, r, []step{
		{"DELETE /subjects/s?permanent=true", "", 404, "~40405"},
		{"DELETE /subjects/s/versions/2?permanent=true", "", 404, "~40407"},
		{"DELETE /subjects/s/versions/latest", "", 200, `2`},
		{"DELETE /subjects/s/versions/2", "", 404, "~40406"},
		{"GET /subjects/s/versions", "", 200, `[1]`},
		{"GET /subjects/s/versions?deleted=true", "", 200, `[1,2]`},
		{"GET /schemas/ids/2/schema", "", 200, `"long"`}, // records still name it
		{"POST /subjects/s", schemaBody(t, `"long"`), 404, "~40403"},
		{"POST /subjects/s?deleted=true", schemaBody(t, `"long"`), 200, `~"version":2,"id":2`},
		{"POST /subjects/s/versions", schemaBody(t, `"long"`), 200, `{"id":2}`},
		{"GET /subjects/s/versions", "", 200, `[1,3]`},
		{"DELETE /subjects/s", "", 200, `[1,3]`},
		{"DELETE /subjects/s", "", 404, "~40404"},
		{"GET /subjects", "", 200, `[]`},
		{"GET /subjects?deleted=true", "", 200, `["s"]`},
		{"POST /compatibility/subjects/s/versions", schemaBody(t, `"string"`), 200, `{"is_compatible":true}`},
		{"DELETE /subjects/s?permanent=true", "", 200, `[1,2,3]`},
		{"DELETE /subjects/s", "", 404, "~40401"},
		{"GET /schemas/ids/2", "", 404, "~40403"},
	})
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r = open(t, dir)
	for i, text := range []string{`"string"`, `"bytes"`} {
		if id := register(t, r, "s", text); id != 3+i {
			t.Errorf("id %d after ids up to %d were given: an id must never come back with another schema", id, 2+i)
		}
	}
}

func TestServe(t *testing.T) {
	r := open(t, t.TempDir())
	base, err := r.Serve("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	res, err := (&http.Client{Transport: tr}).Get(base + "/subjects")
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("answer %v, error %v", res, err)
	}
	if err := res.Body.Close(); err != nil {
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, err := r.Serve("127.0.0.1:0"); err == nil {
		t.Error("a closed registry serves")
	}
}
