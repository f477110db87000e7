package postgres

import (
	"strings"
	"testing"
)

func TestSnapshotMode(t *testing.T) {
	for value, want := range map[string]snapshotMode{"initial": modeInitial, "Initial_Only": modeInitialOnly, "NO_DATA": modeNoData, "never": modeNoData, "always": modeAlways, "when_needed": modeWhenNeeded} {
		if got, err := parseSnapshotMode(value); err != nil || got != want {
			t.Errorf("%s: %s, %v", value, got, err)
		}
	}
	for value, want := range map[string]string{
		"schema_only": "no_data", "configuration_based": "nearest is initial", "recovery": "nearest is when_needed", "exported": "nearest is initial", "sometimes": "is not one of initial, initial_only, always, when_needed, no_data",
	} {
		if _, err := parseSnapshotMode(value); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want …%s…", value, err, want)
		}
	}
}

func TestSnapshotStatements(t *testing.T) {
	for name, tc := range map[string]struct {
		raw  map[string]string
		want string
	}{
		"no statement":  {map[string]string{propSnapshotOverride: "public.a"}, "there is no property snapshot.select.statement.overrides.public.a"},
		"no table":      {map[string]string{propSnapshotOverride + ".public.a": "SELECT 1"}, "does not name table public.a"},
		"not qualified": {map[string]string{propSnapshotOverride: "a", propSnapshotOverride + ".a": "SELECT 1"}, `"a" is not schema.table`},
		"right":         {map[string]string{propSnapshotOverride: "public.a, public.b", propSnapshotOverride + ".public.a": "SELECT 1 ; ", propSnapshotOverride + ".public.b": "SELECT 2"}, ""},
	} {
		cfg, problems := Spec().Parse(tc.raw)
		for _, p := range problems {
			if strings.HasPrefix(p.Property, "snapshot.") {
				t.Errorf("%s: %s", name, p)
			}
		}
		got, err := parseOverrides(cfg)
		switch {
		case tc.want == "" && (err != nil || got["public.a"] != "SELECT 1" || got["public.b"] != "SELECT 2"):
			t.Errorf("%s: %v, %v", name, got, err)
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s: %v, want …%s…", name, err, tc.want)
		}
	}
}
