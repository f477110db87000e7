package check

import "testing"

func TestAcknowledgedObjects(t *testing.T) {
	type sample struct {
		confirmed uint64
		settled   bool
		recorded  uint64
	}
	for name, c := range map[string]struct {
		samples []sample
		end     uint64
		found   int
	}{
		"behind":                       {[]sample{{10, true, 20}, {20, false, 20}, {20, true, 30}}, 30, 0},
		"a commit that is not visible": {[]sample{{10, false, 5}, {10, false, 5}, {10, true, 10}}, 10, 0},
		"visible only at the end":      {[]sample{{10, false, 5}}, 10, 0},
		"never visible":                {[]sample{{10, false, 5}}, 9, 1},
		"ahead":                        {[]sample{{5, true, 5}, {10, true, 9}, {10, true, 10}}, 10, 1},
		"ahead, found later":           {[]sample{{10, false, 5}, {9, true, 9}, {10, true, 10}}, 10, 1},
	} {
		a := &Acknowledged{}
		for _, s := range c.samples {
			a.Sample(s.confirmed, s.settled, s.recorded)
		}
		if found := a.End(c.end); len(found) != c.found || a.Samples != len(c.samples) {
			t.Errorf("%s: %v of %d samples", name, found, a.Samples)
		}
	}
}
