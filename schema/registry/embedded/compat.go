package embedded

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/avro"
)

// level says which way schemas are compared and with how many old ones.
type level struct {
	name              string
	backward, forward bool
	all               bool // with every live version, not only the latest
}

func levels() []level {
	return []level{
		{name: "NONE"},
		{name: "BACKWARD", backward: true},
		{name: "BACKWARD_TRANSITIVE", backward: true, all: true},
		{name: "FORWARD", forward: true},
		{name: "FORWARD_TRANSITIVE", forward: true, all: true},
		{name: "FULL", backward: true, forward: true},
		{name: "FULL_TRANSITIVE", backward: true, forward: true, all: true},
	}
}

func levelByName(name string) (level, bool) {
	ls := levels()
	i := slices.IndexFunc(ls, func(l level) bool { return l.name == name })
	if i < 0 {
		return level{}, false
	}
	return ls[i], true
}

func validLevel(name string) bool {
	_, ok := levelByName(name)
	return ok
}

func levelNames() string {
	var names []string
	for _, l := range levels() {
		names = append(names, l.name)
	}
	return strings.Join(names, ", ")
}

// parse reads an Avro schema and makes it ready to be compared. Its encoding
// order of branches may differ from the text's: it is for comparing only.
func parse(text string) (*avro.Schema, error) {
	parsed, err := avro.Parse(text)
	if err != nil {
		return nil, err
	}
	root := parsed.Root()
	if !dropImpliedDefaults(root) {
		return parsed, nil
	}
	return root.Schema()
}

// dropImpliedDefaults moves null behind the other branches of fields without a
// default, and reports whether there were any. The library takes null as the
// default of such a field where null comes first; Avro's specification does
// not, and Java consumers fail on it. Branch order has no part in resolution.
func dropImpliedDefaults(n *avro.SchemaNode) bool {
	changed := false
	for i := range n.Fields {
		f := &n.Fields[i]
		if b := f.Type.Branches; !f.HasDefault && len(b) > 1 && b[0].Type == "null" {
			f.Type.Branches = append(slices.Clone(b[1:]), b[0])
			changed = true
		}
		changed = dropImpliedDefaults(&f.Type) || changed
	}
	for i := range n.Branches {
		changed = dropImpliedDefaults(&n.Branches[i]) || changed
	}
	for _, child := range []*avro.SchemaNode{n.Items, n.Values} {
		if child != nil {
			changed = dropImpliedDefaults(child) || changed
		}
	}
	return changed
}

// compare gives the reasons why next may not follow the old versions; none
// means it may. Old versions are given in ascending order.
//
// The rules are Avro's schema resolution, with one that Confluent's registry
// leaves out: decimals match only with the same precision and scale, because a
// reader with another scale would read another number.
func (s *state) compare(l level, next *avro.Schema, old []version) []string {
	if !l.all && len(old) > 1 {
		old = old[len(old)-1:]
	}
	var reasons []string
	for _, v := range slices.Backward(old) {
		before := s.byID[v.id].parsed
		if l.backward {
			if err := avro.CheckCompatibility(before, next); err != nil {
				reasons = append(reasons, backwardReason(err, v.number))
			}
		}
		if l.forward {
			if err := avro.CheckCompatibility(next, before); err != nil {
				reasons = append(reasons, forwardReason(err, v.number))
			}
		}
	}
	return reasons
}

func backwardReason(err error, number int) string {
	var ce *avro.CompatibilityError
	if !errors.As(err, &ce) {
		return fmt.Sprintf("the new schema cannot read data of version %d: %v", number, err)
	}
	if ce.WriterType == "" {
		return fmt.Sprintf("field %s is new and has no default, so data of version %d cannot be read with the new schema", ce.Path, number)
	}
	return fmt.Sprintf("%s: version %d has %s, the new schema has %s (%s), so data of version %d cannot be read with the new schema",
		ce.Path, number, ce.WriterType, ce.ReaderType, ce.Detail, number)
}

func forwardReason(err error, number int) string {
	var ce *avro.CompatibilityError
	if !errors.As(err, &ce) {
		return fmt.Sprintf("version %d cannot read data of the new schema: %v", number, err)
	}
	if ce.WriterType == "" {
		return fmt.Sprintf("field %s is gone and has no default in version %d, so consumers on that version cannot read the new data", ce.Path, number)
	}
	return fmt.Sprintf("%s: the new schema has %s, version %d has %s (%s), so consumers on that version cannot read the new data",
		ce.Path, ce.WriterType, number, ce.ReaderType, ce.Detail)
}
