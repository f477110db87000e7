package registry_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-cdc/tidemark/schema/registry"
)

// closedURL is a loopback URL where nobody listens.
func closedURL(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return "http://" + ln.Addr().String()
}

func withUser(t *testing.T, raw, user, password string) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(user, password)
	return u.String()
}

func TestKnownSchemasSurviveOutage(t *testing.T) {
	s := newServer(t)
	c := newClient(t, registry.Config{URLs: []string{s.url}, AutoRegister: true})
	id := resolve(t, c, "s", v1)
	s.fail(503)
	before := s.hits.Load()
	if got := resolve(t, c, "s", v1); got != id {
		t.Errorf("id %d, want %d", got, id)
	}
	if s.hits.Load() != before {
		t.Error("a known schema asked the registry")
	}
	if _, err := c.Resolve(deadline(t), "s", v2); !registry.IsUnavailable(err) {
		t.Errorf("unknown schema: %v", err)
	}
	s.setGate(func(http.ResponseWriter, *http.Request) bool { return false })
	if got := resolve(t, c, "s", v2); got == id || got == 0 {
		t.Errorf("id %d once the registry is back", got)
	}
}

func TestErrorClasses(t *testing.T) {
	const password = "hunter2secret"
	type class struct{ unavailable, unauthorized, notFound, blocks bool }
	for _, tc := range []struct {
		status int
		body   string
		want   class
		says   string
	}{
		{500, `{"error_code":50001,"message":"store"}`, class{unavailable: true}, "answered 500 (store)"},
		{503, "<html>\nbusy</html>", class{unavailable: true}, "answered 503 (<html> busy</html>)"},
		{429, "", class{unavailable: true}, "answered 429"},
		{408, "", class{unavailable: true}, "answered 408"},
		{401, "", class{unauthorized: true}, "check user and password"},
		{403, `{"error_code":40301,"message":"no"}`, class{unauthorized: true}, "refuses this user"},
		{404, "not here", class{}, "check the URL and its path prefix"},
		{422, `{"error_code":42201,"message":"bad schema"}`, class{blocks: true}, "bad schema"},
		{422, `{"error_code":42205,"message":"read only"}`, class{unauthorized: true}, "READWRITE"},
		{200, "<html>", class{}, "does not answer like a schema registry"},
		{418, strings.Repeat("long ", 1000), class{}, "answered 418"},
	} {
		t.Run(fmt.Sprint(tc.status, tc.body[:min(9, len(tc.body))]), func(t *testing.T) {
			hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				if u, p, _ := req.BasicAuth(); u != "me" || p != password {
					t.Errorf("user %q, password %q", u, p)
				}
				w.WriteHeader(tc.status)
				_, _ = w.Write([]byte(tc.body))
			}))
			defer hs.Close()
			c := newClient(t, registry.Config{URLs: []string{withUser(t, hs.URL, "me", password)}, AutoRegister: true})
			_, err := c.Resolve(deadline(t), "s", v1)
			if err == nil {
				t.Fatal("no error")
			}
			got := class{registry.IsUnavailable(err), registry.IsUnauthorized(err), registry.IsNotFound(err), registry.Blocks(err)}
			if got != tc.want {
				t.Errorf("class %+v, want %+v: %v", got, tc.want, err)
			}
			text := err.Error()
			if !strings.Contains(text, tc.says) || strings.ContainsAny(text, "\n\r") || len(text) > 800 {
				t.Errorf("sentence (%d bytes) %s", len(text), text)
			}
			if strings.Contains(text, password) || strings.Contains(text, "me:") || strings.Contains(text, "me@") {
				t.Errorf("sentence shows credentials: %s", text)
			}
		})
	}
}

// What answers in place of a registry gives no id and no schema, whatever it answers: an id from it would be in every record.
func TestForeignAnswers(t *testing.T) {
	for _, body := range []string{"{}", `{"id":0}`, `{"id":-5}`, `{"status":"maintenance"}`, "null", `"ok"`, "<html>", "", `{"id":1,"schema":"` + strings.Repeat("x", 20<<20)} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }))
		c := newClient(t, registry.Config{URLs: []string{srv.URL}, AutoRegister: true})
		id, err := c.Resolve(deadline(t), "s", v1)
		if err == nil || registry.Blocks(err) || !strings.Contains(err.Error(), "does not answer like a schema registry") {
			t.Errorf("%.40s: id %d, %v", body, id, err)
		}
		if text, err := c.SchemaByID(deadline(t), 7); err == nil || !strings.Contains(err.Error(), "does not answer like a schema registry") {
			t.Errorf("%.40s: schema %q, %v", body, text, err)
		}
		srv.Close()
	}
}

func TestUnreachable(t *testing.T) {
	for name, cfg := range map[string]registry.Config{
		"refused":  {URLs: []string{withUser(t, closedURL(t), "me", "hunter2secret")}},
		"hanging":  {URLs: []string{hanging(t)}, RequestTimeout: 50 * time.Millisecond},
		"no TLS":   {URLs: []string{strings.Replace(newServer(t).url, "http:", "https:", 1)}},
		"redirect": {URLs: []string{redirecting(t)}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, cfg)
			_, err := c.Resolve(deadline(t), "s", v1)
			if !registry.IsUnavailable(err) || registry.Blocks(err) || strings.Contains(err.Error(), "hunter2secret") {
				t.Errorf("error %v", err)
			}
			if err := c.Check(deadline(t)); name != "redirect" && !registry.IsUnavailable(err) {
				t.Errorf("check: %v", err)
			}
			t.Log(err)
		})
	}
}

func hanging(t *testing.T) string {
	t.Helper()
	stop := make(chan struct{})
	hs := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-stop }))
	t.Cleanup(func() { close(stop); hs.Close() })
	return hs.URL
}

func redirecting(t *testing.T) string {
	t.Helper()
	to := newServer(t).url
	hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		http.Redirect(w, req, to+req.URL.Path, http.StatusMovedPermanently)
	}))
	t.Cleanup(hs.Close)
	return hs.URL
}

func TestFailover(t *testing.T) {
	up, sick := newServer(t), newServer(t)
	sick.fail(503)
	c := newClient(t, registry.Config{URLs: []string{closedURL(t), sick.url, up.url}, AutoRegister: true})
	for range 2 {
		if err := c.Check(deadline(t)); err != nil {
			t.Fatal(err)
		}
		if n := sick.hits.Load(); n != 1 {
			t.Errorf("sick registry was asked %d times: the one that answered goes first", n)
		}
	}
}

func TestCredentials(t *testing.T) {
	for name, tc := range map[string]struct {
		cfg  registry.Config
		want string
	}{
		"basic":  {registry.Config{Username: "u", Password: "p"}, "Basic dTpw"},
		"bearer": {registry.Config{BearerToken: "tok"}, "Bearer tok"},
		"none":   {registry.Config{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.setGate(func(_ http.ResponseWriter, req *http.Request) bool {
				if got := req.Header.Get("Authorization"); got != tc.want {
					t.Errorf("Authorization %q, want %q", got, tc.want)
				}
				if got := req.Header.Get("User-Agent"); got != "tidemark" {
					t.Errorf("User-Agent %q", got)
				}
				return false
			})
			tc.cfg.URLs = []string{s.url}
			if err := newClient(t, tc.cfg).Check(deadline(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestConfigRefused(t *testing.T) {
	for name, cfg := range map[string]registry.Config{
		"no URL":      {},
		"scheme":      {URLs: []string{"ftp://me:hunter2secret@host"}},
		"unparseable": {URLs: []string{"http://me:hunter2secret%zz@host"}},
		"no host":     {URLs: []string{"http://"}},
		"both auths":  {URLs: []string{"h:1"}, Username: "u", BearerToken: "hunter2secret"},
	} {
		_, err := registry.New(cfg)
		if err == nil || strings.Contains(err.Error(), "hunter2secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestConfigPrintsNoSecret(t *testing.T) {
	cfg := registry.Config{URLs: []string{"http://me:hunter2secret@host:1/x"}, Username: "u", Password: "hunter2secret", BearerToken: "hunter2secret"}
	for _, f := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(f, cfg); strings.Contains(text, "hunter2secret") || !strings.Contains(text, "http://host:1/x") {
			t.Errorf("%s prints %s", f, text)
		}
	}
}
