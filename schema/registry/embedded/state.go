package embedded

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/avro"
)

// version is one schema of a subject.
type version struct {
	number  int
	id      int
	deleted bool // softly: still resolved by id, no longer compared with
}

type subject struct {
	versions []version // ascending by number
	level    string    // own compatibility level, or empty
	mode     string    // own mode, or empty
}

func (s *subject) live() []version {
	var out []version
	if s != nil {
		for _, v := range s.versions {
			if !v.deleted {
				out = append(out, v)
			}
		}
	}
	return out
}

// stored is a schema. The same text has one id, whatever subjects use it.
type stored struct {
	id     int
	text   string
	key    string
	parsed *avro.Schema
}

type state struct {
	subjects map[string]*subject
	byID     map[int]*stored
	byKey    map[string]*stored
	nextID   int // above every id ever given, forgotten ones included
	level    string
	mode     string
}

func newState(level string) *state {
	return &state{
		subjects: make(map[string]*subject), byID: make(map[int]*stored), byKey: make(map[string]*stored),
		nextID: 1, level: level, mode: "READWRITE",
	}
}

// identity is equal for texts that differ only in white space and in the order
// of attributes. Everything else counts, documentation and properties too.
func identity(text string) string {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return text
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return text
	}
	return buf.String()
}

func (s *state) subject(name string) *subject {
	sub := s.subjects[name]
	if sub == nil {
		sub = &subject{}
		s.subjects[name] = sub
	}
	return sub
}

// apply changes the state by one event, at replay and at run time alike.
func (s *state) apply(e event) error {
	switch e.Op {
	case opRegister:
		return s.applyRegister(e)
	case opDelete:
		return s.applyDelete(e)
	case opLevel:
		if e.Value != "" && !validLevel(e.Value) {
			return fmt.Errorf("unknown compatibility level %q", e.Value)
		}
		if e.Subject == "" {
			s.level = e.Value
		} else {
			s.subject(e.Subject).level = e.Value
		}
	case opMode:
		if e.Subject == "" {
			s.mode = e.Value
		} else {
			s.subject(e.Subject).mode = e.Value
		}
	default:
		return fmt.Errorf("unknown operation %q", e.Op)
	}
	return nil
}

func (s *state) applyRegister(e event) error {
	if s.byID[e.ID] == nil {
		parsed, err := parse(e.Schema)
		if err != nil {
			return fmt.Errorf("schema %d: %w", e.ID, err)
		}
		st := &stored{id: e.ID, text: e.Schema, key: identity(e.Schema), parsed: parsed}
		s.byID[e.ID], s.byKey[st.key] = st, st
	}
	sub := s.subject(e.Subject)
	if n := len(sub.versions); n > 0 && sub.versions[n-1].number >= e.Version {
		return fmt.Errorf("version %d of subject %q is not above the one before", e.Version, e.Subject)
	}
	sub.versions = append(sub.versions, version{number: e.Version, id: e.ID})
	s.nextID = max(s.nextID, e.ID+1)
	return nil
}

func (s *state) applyDelete(e event) error {
	sub := s.subjects[e.Subject]
	if sub == nil {
		return fmt.Errorf("delete of unknown subject %q", e.Subject)
	}
	if !e.Permanent {
		for i := range sub.versions {
			if slices.Contains(e.Versions, sub.versions[i].number) {
				sub.versions[i].deleted = true
			}
		}
		return nil
	}
	sub.versions = slices.DeleteFunc(sub.versions, func(v version) bool { return slices.Contains(e.Versions, v.number) })
	if len(sub.versions) == 0 {
		delete(s.subjects, e.Subject)
	}
	s.forgetUnused()
	return nil
}

// forgetUnused drops schemas that no subject names any more. Their ids are not
// given again.
func (s *state) forgetUnused() {
	used := make(map[int]bool, len(s.byID))
	for _, sub := range s.subjects {
		for _, v := range sub.versions {
			used[v.id] = true
		}
	}
	for id, st := range s.byID {
		if !used[id] {
			delete(s.byID, id)
			delete(s.byKey, st.key)
		}
	}
}

func (s *state) levelOf(name string) string {
	if sub := s.subjects[name]; sub != nil && sub.level != "" {
		return sub.level
	}
	return s.level
}

func (s *state) modeOf(name string) string {
	if sub := s.subjects[name]; sub != nil && sub.mode != "" {
		return sub.mode
	}
	return s.mode
}
