package postgres

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/pgoutput"
	"github.com/tidemark-cdc/tidemark/offsets"
)

// tableSet is the versioned set of captured tables, relative to the configured lists: a table is captured where the lists take it
// or it was added, and it was not removed. Who was changed last stands in one of the two; the lists decide of all others.
type tableSet struct {
	version        int64
	place          pgoutput.LSN // commit record of the transaction that made the version
	added, removed []string     // qualified names, sorted
}

// captures reports whether a table is in the set.
func (s *tableSet) captures(f *filter, schema, name string) bool {
	full := qualified(schema, name)
	switch {
	case slices.Contains(s.removed, full):
		return false
	case slices.Contains(s.added, full):
		return true
	}
	return f.table(schema, name)
}

// with returns the set after a change.
func (s *tableSet) with(c *setChange, place pgoutput.LSN) tableSet {
	next := tableSet{version: s.version + 1, place: place, added: slices.Clone(s.added), removed: slices.Clone(s.removed)}
	for _, name := range c.Remove {
		next.added, next.removed = without(next.added, name), append(without(next.removed, name), name)
	}
	for _, t := range c.Add {
		next.added, next.removed = append(without(next.added, t.Name), t.Name), without(next.removed, t.Name)
	}
	slices.Sort(next.added)
	slices.Sort(next.removed)
	return next
}

func without(names []string, name string) []string {
	return slices.DeleteFunc(names, func(n string) bool { return n == name })
}

// Names of members of the table set's value.
const (
	fieldSetVersion = "version"
	fieldSetAdded   = "added"   // JSON array of names
	fieldSetRemoved = "removed" // likewise
	fieldSetPlace   = "lsn"     // of the commit that made the version
)

// entry is what is stored of the set.
func (s *tableSet) entry(server string) offsets.Entry {
	return offsets.Entry{Partition: offsets.SetPartition(server), Offset: offsets.Object{
		{Name: fieldSetVersion, Value: s.version}, {Name: fieldSetAdded, Value: namesJSON(s.added)},
		{Name: fieldSetRemoved, Value: namesJSON(s.removed)}, {Name: fieldSetPlace, Value: s.place.String()},
	}}
}

func namesJSON(names []string) string {
	text, err := json.Marshal(append([]string{}, names...))
	if err != nil {
		panic(err) // strings always encode
	}
	return string(text)
}

// readSet finds the set among the stored entries; without one the lists alone count.
func readSet(server string, stored []offsets.Entry) (s tableSet, err error) {
	o, ok := offsets.Find(stored, offsets.SetPartition(server))
	if !ok {
		return s, nil
	}
	bad := func(err error) (tableSet, error) {
		return tableSet{}, connectors.Refuse(fmt.Errorf("read the stored table set of stream %q: %w", server, err))
	}
	if s.version, ok = o.Int(fieldSetVersion); !ok || s.version < 1 {
		return bad(fmt.Errorf("member %q is missing or no version", fieldSetVersion))
	}
	for _, f := range []struct {
		name string
		into *[]string
	}{{fieldSetAdded, &s.added}, {fieldSetRemoved, &s.removed}} {
		text, _ := o.Text(f.name)
		if err := json.Unmarshal([]byte(text), f.into); err != nil {
			return bad(fmt.Errorf("member %q is no list of names: %w", f.name, err))
		}
	}
	if text, ok := o.Text(fieldSetPlace); ok { // an offset written by hand may lack it
		if s.place, err = pgoutput.ParseLSN(text); err != nil {
			return bad(fmt.Errorf("member %q: %w", fieldSetPlace, err))
		}
	}
	return s, nil
}

// setMessage is the content of the logical message that changes the set, compact JSON:
//
//	{"server":"shop","tables":{"version":2,"add":[{"name":"public.a","id":16400}],"remove":["public.b"]}}
type setMessage struct {
	Server string     `json:"server"` // of the stream: others may read the same database
	Tables *setChange `json:"tables"`
}

// setChange is one change of the set.
type setChange struct {
	Version int64      `json:"version"`
	Add     []addTable `json:"add,omitempty"`
	Remove  []string   `json:"remove,omitempty"`
}

// addTable names a table by name and OID.
type addTable struct {
	Name string `json:"name"`
	ID   uint32 `json:"id"`
}

func (m setMessage) content() string {
	text, err := json.Marshal(m)
	if err != nil {
		panic(err) // strings always encode
	}
	return string(text)
}

// parseSetMessage reads a message of the set, of any stream: exactly what content writes.
func parseSetMessage(prefix, content []byte) (m setMessage, ok bool) {
	if string(prefix) != ourPrefix || len(content) == 0 || content[0] != '{' {
		return m, false
	}
	if json.Unmarshal(content, &m) != nil || m.Tables == nil || m.Tables.Version < 1 {
		return setMessage{}, false
	}
	return m, m.content() == string(content)
}
