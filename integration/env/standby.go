package env

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

// NewStandby starts a hot standby of p for one test, from a base backup taken while p runs; it streams from p through a
// physical slot of its own name, dropped when the test ends. Options are the standby's.
func (p *Postgres) NewStandby(t testing.TB, o PostgresOptions) *Postgres {
	t.Helper()
	s := p.env.postgres(p.Major, true, o)
	slot := Unique("standby_")
	if err := p.Exec(t.Context(), "postgres", fmt.Sprintf("SELECT pg_create_physical_replication_slot('%s', true)", slot)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := p.Exec(context.Background(), "postgres", fmt.Sprintf("SELECT pg_drop_replication_slot('%s')", slot))
		if err != nil && !p.private {
			t.Errorf("drop the standby's slot: %v", err)
		}
	})
	if err := p.backup(t.Context(), s, slot); err != nil {
		t.Fatalf("back up %s: %v", p.Dir, err)
	}
	s.startPrivate(t, func(ctx context.Context) error { return s.Stop(ctx, Immediate) })
	return s
}

// Promote ends a standby's recovery and waits until it takes writes.
func (p *Postgres) Promote(ctx context.Context) error {
	return p.Exec(ctx, "postgres", "SELECT pg_promote(true, 60)")
}

// CaughtUp waits until the standby has replayed all that its primary had written when called.
func (p *Postgres) CaughtUp(ctx context.Context, primary *Postgres) error {
	from, err := pgx.Connect(ctx, primary.URL("postgres"))
	if err != nil {
		return err
	}
	defer from.Close(context.WithoutCancel(ctx))
	var lsn string
	if err := from.QueryRow(ctx, "SELECT pg_current_wal_lsn()::text").Scan(&lsn); err != nil {
		return err
	}
	c, err := pgx.Connect(ctx, p.URL("postgres"))
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	return waitFor(ctx, "the standby to replay "+lsn, func() bool {
		var done bool
		return c.QueryRow(ctx, "SELECT pg_last_wal_replay_lsn() >= $1::text::pg_lsn", lsn).Scan(&done) == nil && done
	})
}

// backup copies p's data to s, as section "Making a Base Backup Using the Low Level API" of PostgreSQL's manual says.
func (p *Postgres) backup(ctx context.Context, s *Postgres, slot string) error {
	begin, end := "SELECT pg_backup_start('standby', true)", "SELECT labelfile FROM pg_backup_stop(false)"
	if p.Major < 15 {
		begin, end = "SELECT pg_start_backup('standby', true, false)", "SELECT labelfile FROM pg_stop_backup(false, false)"
	}
	c, err := pgx.Connect(ctx, p.URL("postgres"))
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx)) // the backup ends with its session
	if _, err := c.Exec(ctx, begin); err != nil {
		return err
	}
	if err := copyTree(p.Dir, s.Dir, backedUp); err != nil {
		return err
	}
	var label string
	if err := c.QueryRow(ctx, end).Scan(&label); err != nil {
		return err
	}
	conninfo := fmt.Sprintf("host=%s port=%d user=%s password=%s dbname=postgres application_name=%s", host, p.Port(), Superuser, SuperuserPassword, slot)
	for name, text := range map[string]string{
		"backup_label":         label,
		"standby.signal":       "",
		"postgresql.auto.conf": fmt.Sprintf("primary_conninfo = '%s'\nprimary_slot_name = '%s'\n", conninfo, slot),
	} {
		if err := writeLike(filepath.Join(s.DataDir(), name), []byte(text), p.DataDir()); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(s.Dir, ".inited"), nil, 0o644) // setup-postgres.sh: no initdb
}

// backedUp leaves out what belongs to the running server and what its manual says not to copy.
func backedUp(rel string, dir bool) bool {
	switch top, rest, _ := strings.Cut(rel, "/"); {
	case top != "data":
		return rel == "."
	case rest == "postmaster.pid", rest == "postmaster.opts":
		return false
	default:
		parent := filepath.Dir(rest)
		return dir && parent == "pg_wal" || parent != "pg_wal" && parent != "pg_replslot" && !strings.Contains(rest, "pgsql_tmp")
	}
}

// copyTree copies folders and regular files with owner and mode. Files may vanish or change meanwhile: WAL replay mends them.
func copyTree(from, to string, keep func(rel string, dir bool) bool) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if !keep(rel, d.IsDir()) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		dst := filepath.Join(to, rel)
		switch {
		case d.IsDir():
			if err := os.MkdirAll(dst, 0o700); err != nil {
				return err
			}
			return like(dst, path)
		case d.Type().IsRegular():
			return copyFile(dst, path)
		default:
			return nil
		}
	})
}

func copyFile(dst, src string) error {
	in, err := os.Open(src)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(dst, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return errors.Join(err, out.Close())
	}
	if err := out.Close(); err != nil {
		return err
	}
	return like(dst, src)
}

func writeLike(file string, b []byte, model string) error {
	if err := os.WriteFile(file, b, 0o600); err != nil {
		return err
	}
	return own(file, model)
}

// like gives path the owner and mode of model.
func like(path, model string) error {
	info, err := os.Stat(model)
	if errors.Is(err, fs.ErrNotExist) {
		return os.RemoveAll(path) // dropped while it was copied
	}
	if err != nil {
		return err
	}
	if err := os.Chmod(path, info.Mode().Perm()); err != nil {
		return err
	}
	return own(path, model)
}

func own(path, model string) error {
	var st syscall.Stat_t
	if err := syscall.Stat(model, &st); err != nil {
		return err
	}
	return os.Lchown(path, int(st.Uid), int(st.Gid))
}
