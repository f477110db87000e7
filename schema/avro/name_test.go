package avro

import (
	"regexp"
	"testing"

	"pgregory.net/rapid"
)

var legal = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func TestNameTable(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"order_id", "order_id"},
		{"_", "_"},
		{"__pos", "__pos"},
		{"", "_x_"},
		{"_x_", "_x5f_x_"},
		{"a_x_b", "a_x_b"},
		{"2fa", "_x32_fa"},
		{"a2", "a2"},
		{"Größe", "Gr_xf6__xdf_e"},
		{"價格", "_x50f9__x683c_"},
		{"😀", "_x1f600_"},
		{"first name", "first_x20_name"},
		{"a.b", "a_x2e_b"},
		{`say "hi"`, "say_x20__x22_hi_x22_"},
		{"_x5f_", "_x5f_x5f_"},
		{"a_xAB_c", "a_x5f_xAB_c"},
		{"_xab", "_xab"},
		{"_xab é", "_x5f_xab_x20__xe9_"},
		{"_xyz_", "_xyz_"},
		{"\xff", "_x1100ff_"},
	} {
		if got := Name(c.in); got != c.want {
			t.Errorf("Name(%q) = %q, want %q", c.in, got, c.want)
		}
		if got := Original(c.want); got != c.in {
			t.Errorf("Original(%q) = %q, want %q", c.want, got, c.in)
		}
	}
}

// identifiers draws what may go wrong: pieces of escapes, digits, and any text.
func identifiers() *rapid.Generator[string] {
	pieces := rapid.SliceOfN(rapid.SampledFrom([]string{"_", "x", "_x", "5f", "a", "AB", "0", "é", " ", ".", "😀", "\xff", "g", "1100ff"}), 0, 8)
	return rapid.OneOf(
		rapid.Map(pieces, func(p []string) string {
			s := ""
			for _, x := range p {
				s += x
			}
			return s
		}),
		rapid.String(),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
	)
}

func TestNameProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := identifiers().Draw(t, "a"), identifiers().Draw(t, "b")
		name := Name(a)
		if !legal.MatchString(name) {
			t.Fatalf("Name(%q) = %q is not legal", a, name)
		}
		if back := Original(name); back != a {
			t.Fatalf("Original(Name(%q)) = Original(%q) = %q", a, name, back)
		}
		if (name == Name(b)) != (a == b) {
			t.Fatalf("%q and %q are both %q", a, b, name)
		}
	})
}

func TestNameKeepsPlainNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringMatching(`[A-Za-z_][A-Za-wyz0-9_]{0,20}`).Draw(t, "s")
		if Name(s) != s || Name(Name(s)) != s {
			t.Fatalf("Name(%q) = %q", s, Name(s))
		}
	})
}

func FuzzOriginal(f *testing.F) {
	f.Add("_x5f_a")
	f.Add("_xffffffffffffffff_")
	f.Fuzz(func(t *testing.T, name string) {
		if back := Name(Original(name)); Original(back) != Original(name) {
			t.Fatalf("%q: %q", name, back)
		}
	})
}
