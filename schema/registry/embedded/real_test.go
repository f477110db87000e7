package embedded

import (
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
)

// TestCompareAgainstRealRegistry asks a registry that is not ours for the same
// verdicts.
func TestCompareAgainstRealRegistry(t *testing.T) {
	base := os.Getenv("TIDEMARK_TEST_REGISTRY_URL")
	if base == "" {
		t.Skip("TIDEMARK_TEST_REGISTRY_URL is not set: no real schema registry to compare with")
	}
	// Avro's specification makes decimals match only with equal precision and
	// scale; Java's checker looks at the bytes beneath.
	stricter := map[string]bool{"decimal precision": true, "decimal scale": true}
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	send := func(method, path, body string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", contentType)
		res, err := (&http.Client{Transport: tr}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(b)
	}
	prefix := "compare-" + rand.Text()
	for i, tc := range changes() {
		subject := fmt.Sprintf("%s-%d", prefix, i)
		if status, body := send("POST", "/subjects/"+subject+"/versions", schemaBody(t, tc.old)); status != 200 {
			t.Fatalf("%s: register: %d %s", tc.name, status, body)
		}
		for level, want := range map[string]bool{"BACKWARD": tc.backward, "FORWARD": tc.forward} {
			if status, body := send("PUT", "/config/"+subject, `{"compatibility":"`+level+`"}`); status != 200 {
				t.Fatalf("%s: set level: %d %s", tc.name, status, body)
			}
			status, body := send("POST", "/compatibility/subjects/"+subject+"/versions/latest", schemaBody(t, tc.next))
			if status != 200 {
				t.Fatalf("%s: check: %d %s", tc.name, status, body)
			}
			got := strings.Contains(body, `"is_compatible":true`)
			if expected := want || stricter[tc.name]; got != expected {
				t.Errorf("%s, %s: the real registry says %t, ours %t", tc.name, level, got, want)
			}
		}
		send("DELETE", "/subjects/"+subject, "")
	}
}
