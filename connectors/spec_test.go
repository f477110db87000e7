package connectors

import (
	"strings"
	"testing"
	"time"
)

// A name of any length is answered at once: a file of another kind reads as one long name.
func TestUnknownNameOfAnyLength(t *testing.T) {
	began := time.Now()
	_, problems := Spec{{Name: "topic.prefix"}}.Parse(map[string]string{strings.Repeat("a", 50_000_000): "x"})
	if len(problems) != 1 || time.Since(began) > time.Second {
		t.Errorf("%d problems after %s", len(problems), time.Since(began))
	}
}
