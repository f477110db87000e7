package embeddedpg

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

var (
	zipMagic = []byte("PK\x03\x04")
	xzMagic  = []byte("\xfd7zXZ\x00")
)

// readArchive reads the programs' tar.xz from a file that is one, or a jar that holds one. key names its content.
func readArchive(path string) (txz []byte, key string, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, "", fmt.Errorf("read the PostgreSQL archive: %w", err)
	}
	switch {
	case bytes.HasPrefix(b, xzMagic):
	case bytes.HasPrefix(b, zipMagic):
		if b, err = fromJar(b); err != nil {
			return nil, "", fmt.Errorf("read the PostgreSQL archive %s: %w", path, err)
		}
	default:
		return nil, "", fmt.Errorf("%s is neither a .txz nor a .jar: give the archive embedded-postgres-binaries-%s-%s.jar, or the .txz within it", path, platform(), Version)
	}
	sum := sha256.Sum256(b)
	return b, "archive-" + hex.EncodeToString(sum[:6]), nil
}

func fromJar(b []byte) ([]byte, error) {
	z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, err
	}
	for _, f := range z.File {
		if !strings.HasSuffix(f.Name, ".txz") {
			continue
		}
		r, err := f.Open()
		if err != nil {
			return nil, err
		}
		txz, err := io.ReadAll(r)
		return txz, errors.Join(err, r.Close())
	}
	return nil, errors.New("it holds no .txz")
}

// place puts the archive where the library looks before it asks the network.
func place(dir string, txz []byte) error {
	target := filepath.Join(dir, archiveName())
	if st, err := os.Stat(target); err == nil && st.Size() == int64(len(txz)) {
		return nil
	}
	tmp := target + ".new"
	if err := os.WriteFile(tmp, txz, 0o644); err != nil {
		return fmt.Errorf("keep the PostgreSQL archive: %w", err)
	}
	if err := os.Rename(tmp, target); err != nil {
		return fmt.Errorf("keep the PostgreSQL archive: %w", err)
	}
	return nil
}
