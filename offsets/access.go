package offsets

// Get returns the member's value and whether it is there.
func (o Object) Get(name string) (any, bool) {
	for i := range o {
		if o[i].Name == name {
			return o[i].Value, true
		}
	}
	return nil, false
}

// Text returns a string member; false where it is absent or not a string.
func (o Object) Text(name string) (string, bool) {
	v, _ := o.Get(name)
	s, ok := v.(string)
	return s, ok
}

// Int returns an integer member; false where it is absent or not an integer.
func (o Object) Int(name string) (int64, bool) {
	v, _ := o.Get(name)
	n, ok := v.(int64)
	return n, ok
}

// Bool returns a boolean member; false where it is absent or not a boolean.
func (o Object) Bool(name string) (value, ok bool) {
	v, _ := o.Get(name)
	b, ok := v.(bool)
	return b, ok
}

// With returns a copy of o with the member set: in its place where it exists, else at the end.
// An int is kept as int64.
func (o Object) With(name string, value any) Object {
	if n, ok := value.(int); ok {
		value = int64(n)
	}
	out := make(Object, len(o), len(o)+1)
	copy(out, o)
	for i := range out {
		if out[i].Name == name {
			out[i].Value = value
			return out
		}
	}
	return append(out, Field{name, value})
}

// Equal reports whether both have the same members with the same values, in any order: other
// writers order members as they like. A tombstone equals only a tombstone.
func (o Object) Equal(other Object) bool {
	if len(o) != len(other) || (o == nil) != (other == nil) {
		return false
	}
	for _, f := range o {
		if v, ok := other.Get(f.Name); !ok || v != f.Value {
			return false
		}
	}
	return true
}

// Find returns the offset stored for a partition.
func Find(entries []Entry, partition Object) (Object, bool) {
	for i := range entries {
		if entries[i].Partition.Equal(partition) {
			return entries[i].Offset, entries[i].Offset != nil
		}
	}
	return nil, false
}
