package pgoutput

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

func TestLSN(t *testing.T) {
	for text, want := range map[string]LSN{
		"0/0": 0, "0/1": 1, "1/0": 1 << 32, "16/B374D848": 0x16_B374D848, "FFFFFFFF/FFFFFFFF": 1<<64 - 1, "3D/485795A0": 0x3D_485795A0,
	} {
		if got, err := ParseLSN(text); err != nil || got != want {
			t.Errorf("ParseLSN(%q) = %d, %v, want %d", text, got, err, want)
		}
		if got := want.String(); got != text {
			t.Errorf("String = %s, want %s", got, text)
		}
	}
	if got, err := ParseLSN("00000016/0a"); err != nil || got != 0x16_0000000A {
		t.Errorf("leading zeros, lower case: %v, %v", got, err)
	}
}

func TestParseLSNRefuses(t *testing.T) {
	for _, s := range []string{"", "/", "1", "1/", "/1", "1/2/3", " 1/2", "1/2 ", "-1/2", "+1/2", "0x1/2", "1_0/2", "G/1", "123456789/0", "0/000000001", "1/2\n"} {
		if got, err := ParseLSN(s); err == nil {
			t.Errorf("ParseLSN(%q) = %v", s, got)
		}
	}
}

func TestLSNText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := LSN(rapid.Uint64().Draw(t, "lsn"))
		if want := fmt.Sprintf("%X/%X", uint32(l>>32), uint32(l)); l.String() != want {
			t.Fatalf("%s, want %s", l, want)
		}
		if back, err := ParseLSN(l.String()); err != nil || back != l {
			t.Fatalf("%s parsed as %v, %v", l, back, err)
		}
	})
}
