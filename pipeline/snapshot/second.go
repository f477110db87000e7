package snapshot

import (
	"github.com/tidemark-cdc/tidemark/connectors"
)

// moreKeys stands first among the stored keys to be read again where there are others, which only a pass over the whole
// table finds: the log tells a key's values, not how the reader writes them.
const moreKeys = ""

// second is what a table is read through once more for: keys under which an update has put a row whose columns the log does
// not carry all, when the row may not have been read under its old key. Rows of other keys are passed over then.
type second struct {
	due     bool            // a further pass is to follow
	late    map[string]bool // its keys
	unknown bool            // its keys are not known, after a restart: all

	pass bool // a further pass is under way
	keys map[string]bool
	all  bool
}

// moved takes note of a change that puts a row where it may have been read already, or was not and has columns that nobody knows.
func (g *second) moved(c *connectors.Change, most int) {
	key, ok := appendKey(nil, c.Table, c.After)
	if !ok {
		return
	}
	if g.pass && !g.all { // every other row is published
		from, ok := key, true
		if c.OldKey != nil {
			from, ok = appendKey(nil, c.Table, c.OldKey)
		}
		if ok && !g.keys[string(from)] && !g.late[string(from)] {
			return
		}
	}
	if g.late == nil {
		g.late = map[string]bool{}
	}
	g.late[string(key)] = true
	if len(g.late) > most {
		g.unknown, g.late = true, nil
	}
}

// noted tells that there are moved keys whose pass is not stored yet.
func (g *second) noted() bool { return !g.due && (len(g.late) > 0 || g.unknown) }

// begin begins the further pass; false where none is due.
func (g *second) begin() bool {
	if g.pass && len(g.late) == 0 && !g.unknown {
		return false
	}
	if !g.due {
		return false
	}
	*g = second{due: true, pass: true, keys: g.late, all: g.unknown}
	return true
}

// wants tells that a row of this key is to be published by this pass.
func (g *second) wants(key []byte) bool { return !g.pass || g.all || g.keys[string(key)] }

// hidden tells that a key of this pass was changed unseen and had no row in the chunk: it may not have got there yet.
func (g *second) hidden(changed map[string]bool) bool {
	if !g.pass || g.all {
		return false
	}
	for key, lacks := range changed {
		if lacks && g.keys[key] {
			return true
		}
	}
	return false
}

// stored writes the keys to be read again as they are stored.
func (g *second) stored(again []string) string {
	if g.due {
		again = append([]string{moreKeys}, again...)
	}
	return encode(again)
}

// moved stores that tables need a further pass.
func (s *Source) moved(progress []connectors.TableProgress) []connectors.TableProgress {
	for _, t := range s.order {
		if t.job == nil || !t.again.noted() {
			continue
		}
		t.again.due = true
		t.progress.Again = t.again.stored(s.toRead(t.job))
		progress = append(progress, t.stored())
	}
	return progress
}
