package embeddedpg

import (
	"archive/zip"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSupported(t *testing.T) {
	for _, p := range []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64"} {
		if goos, arch, _ := strings.Cut(p, "/"); Supported(goos, arch) != nil {
			t.Errorf("%s is refused", p)
		}
	}
	for _, p := range []string{"linux/riscv64", "windows/amd64", "freebsd/amd64"} {
		goos, arch, _ := strings.Cut(p, "/")
		err := Supported(goos, arch)
		if err == nil || !strings.Contains(err.Error(), "--postgres-url") || !strings.Contains(err.Error(), p) {
			t.Errorf("%s: %v", p, err)
		}
	}
}

func TestReadArchive(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	jar := func(member string, content []byte) []byte {
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		w, err := z.Create(member)
		if err == nil {
			_, err = w.Write(content)
		}
		if err != nil || z.Close() != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	txz := append(bytes.Clone(xzMagic), "programs"...)
	direct, key, err := readArchive(write("a.txz", txz))
	if err != nil || !bytes.Equal(direct, txz) {
		t.Fatalf("%q %v", direct, err)
	}
	inJar, jarKey, err := readArchive(write("a.jar", jar("postgres-linux-x86_64.txz", txz)))
	if err != nil || !bytes.Equal(inJar, txz) || jarKey != key {
		t.Errorf("%q %q %v", inJar, jarKey, err)
	}
	for name, content := range map[string][]byte{"junk": []byte("junk"), "empty": nil, "other.jar": jar("README", txz), "torn.jar": jar("x.txz", txz)[:20]} {
		path := write(name, content)
		if _, _, err := readArchive(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := readArchive(filepath.Join(dir, "absent")); err == nil {
		t.Error("an absent archive was read")
	}
}
