package signal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The kinds of snapshots a signal can ask for.
const (
	KindIncremental = "incremental" // beside the stream
	KindBlocking    = "blocking"    // the stream waits
)

// Limits of what is stored with the offsets until the request is done.
const (
	maxID     = 255      // bytes of an id
	maxFilter = 16 << 10 // bytes of a filter
	maxNames  = 10_000   // collections of one request
)

// Request is a checked signal's data: the one of the signal's type is set; pause and resume have none.
type Request struct {
	Execute *Execute
	Stop    *Stop
	Tables  *Tables
}

// types are the known types, with the members of their data. Pause and resume ignore theirs, as Debezium does.
var types = []struct {
	name    string
	members []string
}{
	{TypeExecute, []string{"data-collections", "type", "additional-conditions", "additional-condition", "surrogate-key"}},
	{TypeStop, []string{"data-collections", "type"}},
	{TypePause, nil},
	{TypeResume, nil},
	{TypeTables, []string{"add", "remove"}},
}

// Parse checks a signal. The error is one sentence that names what is wrong.
func Parse(id, typ string, data []byte) (Request, error) {
	if err := checkID(id); err != nil {
		return Request{}, err
	}
	members := []string{}
	known := make([]string, len(types))
	for i, t := range types {
		known[i] = t.name
		if t.name == typ {
			members = t.members
		}
	}
	if typ == "" {
		return Request{}, fmt.Errorf("the type is missing; there are %s", strings.Join(known, ", "))
	}
	if !slices.Contains(known, typ) {
		return Request{}, fmt.Errorf("type %s is not known; there are %s", quote(typ), strings.Join(known, ", "))
	}
	if members == nil {
		return Request{}, nil
	}
	if len(bytes.TrimSpace(data)) == 0 || string(bytes.TrimSpace(data)) == "null" {
		if typ == TypeStop {
			return Request{Stop: &Stop{Kind: KindIncremental}}, nil
		}
		return Request{}, fmt.Errorf("the data of %s is missing; it is an object with %s", typ, members[0])
	}
	if err := checkMembers("the data of "+typ, data, members...); err != nil {
		return Request{}, err
	}
	switch typ {
	case TypeExecute:
		e, err := parseExecute(data)
		return Request{Execute: e}, err
	case TypeStop:
		s, err := parseStop(data)
		return Request{Stop: s}, err
	}
	t, err := parseTables(data)
	return Request{Tables: t}, err
}

func checkID(id string) error {
	switch {
	case id == "":
		return errors.New("the id is missing; give each signal its own, such as a UUID")
	case !utf8.ValidString(id) || strings.ContainsFunc(id, unicode.IsControl):
		return errors.New("the id holds control characters or is not UTF-8")
	case len(id) > maxID:
		return fmt.Errorf("the id has %d bytes; at most %d are kept", len(id), maxID)
	}
	return nil
}

// quote shows at most 60 characters of what somebody wrote.
func quote(s string) string {
	if r := []rune(s); len(r) > 60 {
		return fmt.Sprintf("%q…", string(r[:60]))
	}
	return fmt.Sprintf("%q", s)
}

// checkMembers refuses what is no object, or has a member that is not known.
func checkMembers(what string, data []byte, known ...string) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return fmt.Errorf("%s is not a JSON object: %w", what, shorten(err))
	}
	var unknown []string
	for name := range members {
		if !slices.Contains(known, name) {
			unknown = append(unknown, quote(name))
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	slices.Sort(unknown)
	return fmt.Errorf("%s has the member %s, which is not known; there are %s", what, strings.Join(unknown, ", "), strings.Join(known, ", "))
}

// shorten says in our words what a JSON decoder says in Go's.
func shorten(err error) error {
	if wrong := new(json.UnmarshalTypeError); errors.As(err, &wrong) {
		if wrong.Field == "" {
			return fmt.Errorf("it is of type %s", wrong.Value)
		}
		return fmt.Errorf("%s is of type %s", strings.TrimPrefix(wrong.Field, "Execute."), wrong.Value)
	}
	return err
}

func parseExecute(data []byte) (*Execute, error) {
	var e struct {
		Execute
		Condition string `json:"additional-condition"` // of all tables: Debezium's before 2.5
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return nil, fmt.Errorf("the data of %s cannot be read: %w", TypeExecute, shorten(err))
	}
	out := e.Execute
	if strings.TrimSpace(e.Condition) != "" {
		out.Conditions = append(out.Conditions, Condition{Collection: ".*", Filter: e.Condition})
	}
	if len(out.Collections) == 0 {
		return nil, errors.New("data-collections is missing or empty; it lists the tables, by qualified name or regular expression")
	}
	var err error
	if out.Kind, err = kind(out.Kind); err != nil {
		return nil, err
	}
	if err := trimPatterns("data-collections", out.Collections); err != nil {
		return nil, err
	}
	for i := range out.Conditions {
		c := &out.Conditions[i]
		one := []string{c.Collection}
		if err := trimPatterns("data-collection of additional-conditions", one); err != nil {
			return nil, err
		}
		c.Collection = one[0]
		if strings.TrimSpace(c.Filter) == "" {
			return nil, fmt.Errorf("the condition of %s has no filter; it is SQL, such as color = 'blue'", quote(c.Collection))
		}
		if len(c.Filter) > maxFilter {
			return nil, fmt.Errorf("the filter of %s has %d bytes; at most %d are kept", quote(c.Collection), len(c.Filter), maxFilter)
		}
	}
	if out.SurrogateKey = strings.TrimSpace(out.SurrogateKey); len(out.SurrogateKey) > maxID {
		return nil, fmt.Errorf("surrogate-key has %d bytes; it is the name of a column", len(out.SurrogateKey))
	}
	return &out, nil
}

func parseStop(data []byte) (*Stop, error) {
	var s Stop
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("the data of %s cannot be read: %w", TypeStop, shorten(err))
	}
	var err error
	if s.Kind, err = kind(s.Kind); err != nil {
		return nil, err
	}
	return &s, trimPatterns("data-collections", s.Collections)
}

func parseTables(data []byte) (*Tables, error) {
	var t Tables
	if err := json.Unmarshal(data, &t); err != nil {
		return nil, fmt.Errorf("the data of %s cannot be read: %w", TypeTables, shorten(err))
	}
	if len(t.Add)+len(t.Remove) == 0 {
		return nil, errors.New("neither add nor remove names a table")
	}
	if len(t.Add)+len(t.Remove) > maxNames {
		return nil, fmt.Errorf("%d tables are too many for one signal; at most %d", len(t.Add)+len(t.Remove), maxNames)
	}
	for _, list := range [][]string{t.Add, t.Remove} {
		for i, name := range list {
			if list[i] = strings.TrimSpace(name); list[i] == "" {
				return nil, errors.New("add or remove has an empty name; they list tables by qualified name")
			}
		}
	}
	for _, name := range t.Add {
		if slices.Contains(t.Remove, name) {
			return nil, fmt.Errorf("table %s is to be added and removed", quote(name))
		}
	}
	return &t, nil
}

// kind reads the type of a snapshot, in upper or lower case as Debezium does.
func kind(s string) (string, error) {
	switch k := strings.ToLower(strings.TrimSpace(s)); k {
	case "", KindIncremental:
		return KindIncremental, nil
	case KindBlocking:
		return k, nil
	}
	return "", fmt.Errorf("type %s of a snapshot is not one of %s, %s", quote(s), KindIncremental, KindBlocking)
}

func trimPatterns(what string, list []string) error {
	if len(list) > maxNames {
		return fmt.Errorf("%s has %d members; at most %d", what, len(list), maxNames)
	}
	for i := range list {
		if list[i] = strings.TrimSpace(list[i]); list[i] == "" {
			return fmt.Errorf("%s has an empty member; it takes qualified names or regular expressions", what)
		}
	}
	_, err := CompileNames(list)
	return err
}

// Names are regular expressions on qualified names, anchored at both ends and ignoring case, as Debezium's.
type Names []*regexp.Regexp

// CompileNames compiles them; the error names the first one that is none.
func CompileNames(list []string) (Names, error) {
	out := make(Names, 0, len(list))
	for _, text := range list {
		re, err := regexp.Compile(`(?i)^(?:` + text + `)$`)
		if err != nil {
			return nil, fmt.Errorf("%s is not a regular expression (RE2 syntax): %w", quote(text), err)
		}
		out = append(out, re)
	}
	return out, nil
}

// Match reports whether one of them matches the whole name.
func (n Names) Match(name string) bool {
	return slices.ContainsFunc(n, func(re *regexp.Regexp) bool { return re.MatchString(name) })
}

// Filter returns the SQL of the first condition whose collection matches the qualified name, empty where none does.
func (e *Execute) Filter(name string) string {
	for _, c := range e.Conditions {
		if n, err := CompileNames([]string{c.Collection}); err == nil && n.Match(name) {
			return c.Filter
		}
	}
	return ""
}

// ParseMessage reads a signal as the file and the Kafka topic have it: {"id":…,"type":…,"data":{…}}, and checks it. Where it
// has no id it gets the other one. Data that is a string holds the object as text, as the table's column does.
func ParseMessage(b []byte, otherwise string) (Signal, error) {
	if err := checkMembers("the signal", b, "id", "type", "data", "additionalData", "channelOffset"); err != nil {
		return Signal{}, err
	}
	var m struct {
		ID   *string         `json:"id"`
		Type string          `json:"type"`
		Data json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return Signal{}, fmt.Errorf("the signal cannot be read: %w", shorten(err))
	}
	s := Signal{ID: otherwise, Type: m.Type, Data: m.Data}
	if m.ID != nil {
		s.ID = *m.ID
	}
	var text string
	if len(m.Data) > 0 && m.Data[0] == '"' && json.Unmarshal(m.Data, &text) == nil {
		s.Data = []byte(text)
	}
	_, err := Parse(s.ID, s.Type, s.Data)
	return s, err
}
