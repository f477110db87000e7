package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/catalog"
)

// checkLock is how long the stream stands still for a table that is being altered: from 15 on the server locks the tables of a
// publication to tell their columns.
const checkLock = "500ms"

// checkCatalogue looks for drift that the log does not show.
func (s *stream) checkCatalogue(ctx context.Context) error {
	var tables []*catalog.Table
	var refs []catalog.TableRef
	var pub catalog.Publication
	err := s.sentinel.do(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
		if tables, err = catalog.ReadTables(ctx, conn, s.plans.captured()...); err != nil {
			return err
		}
		if refs, err = catalog.ListTables(ctx, conn, s.plans.viaRoot); err != nil {
			return err
		}
		if _, err = conn.Exec(ctx, "SET lock_timeout = '"+checkLock+"'"); err != nil {
			return err
		}
		pub, err = catalog.ReadPublication(ctx, conn, s.set.publication.Name)
		_, reset := conn.Exec(ctx, "SET lock_timeout = 0")
		return errors.Join(err, reset)
	})
	if sqlState(err) == "55P03" { // the next look may have more luck
		s.opts.Log.Info("the look at the catalogue for drift is put off: somebody holds a lock on a table of the publication", "publication", s.set.publication.Name)
		return nil
	}
	if err != nil {
		return fmt.Errorf("check the catalogue for drift: %w", err)
	}
	if s.plans.viaRoot { // the log describes partitions too, but their rows are those of the root
		tables = slices.DeleteFunc(tables, func(t *catalog.Table) bool { return t.Partition })
	}
	if err := s.plans.checkCatalogue(ctx, tables, refs); err != nil {
		return err
	}
	return s.plans.checkPublication(pub, tables)
}

// published is what the catalogue said of a captured table at the last look: what the server sends of it.
type published struct {
	member  uint32   // membership, see catalog.PublishedTable
	filter  string   // row filter, SQL
	columns []string // the published columns
	all     []string // every column it had
	leaves  []catalog.TableRef
}

// watchPublication remembers what the publication publishes of the captured tables now.
func (p *planner) watchPublication(pub catalog.Publication, tables []*catalog.Table) {
	p.published = make(map[uint32]published, len(tables))
	byOID := make(map[uint32]catalog.PublishedTable, len(pub.Tables))
	for _, t := range pub.Tables {
		byOID[t.OID] = t
	}
	for _, t := range tables {
		now := published{member: byOID[t.OID].Member, filter: byOID[t.OID].RowFilter, columns: byOID[t.OID].Columns}
		for _, c := range t.Columns {
			now.all = append(now.all, c.Name)
		}
		for _, l := range t.Leaves {
			now.leaves = append(now.leaves, l.Ref())
		}
		p.published[t.OID] = now
	}
}

// checkPublication finds what the publication has stopped to publish of the captured tables, or publishes in another
// way: the log goes on without a word of it.
func (p *planner) checkPublication(pub catalog.Publication, tables []*catalog.Table) error {
	keys := make(map[uint32][]string, len(tables))
	for _, t := range tables {
		if k := p.tables[t.OID]; k != nil {
			keys[t.OID] = k.key
		}
	}
	if problems := pub.Coverage(tables, keys); len(problems) > 0 {
		return connectors.Block(fmt.Errorf("%s; what was changed since is not in the log: put it back, and start a new generation with connectctl offsets reset WORKER CONNECTOR where changes were lost", problems[0]))
	}
	if pub.ViaRoot != p.viaRoot {
		return connectors.Block(fmt.Errorf("publish_via_partition_root of publication %s was switched to %t: the log names other tables from then on; switch it back, or start again to go on with it", pub.Name, pub.ViaRoot))
	}
	was := p.published
	p.watchPublication(pub, tables)
	for _, t := range tables {
		before, ok := was[t.OID]
		if !ok {
			continue
		}
		if reason := before.changed(p.published[t.OID], p.viaRoot); reason != "" {
			p.published = was // told again at the next look
			if reason == putBack {
				return connectors.Block(fmt.Errorf("table %s: %s; start again to go on without that, or begin a new generation with connectctl offsets reset WORKER CONNECTOR", t.QualifiedName(), reason))
			}
			return connectors.Block(fmt.Errorf("table %s: %s; undo that, or start again to go on with it as it is now: rows that consumers hold are not repaired", t.QualifiedName(), reason))
		}
	}
	return nil
}

const putBack = "it was taken out of the publication, or published in another way, and put back since the last look: what was changed meanwhile is not in the log"

// changed tells what the server sends in another way, empty where nothing.
func (was published) changed(is published, viaRoot bool) string {
	switch {
	case was.filter != is.filter:
		return fmt.Sprintf("the publication's row filter changed from %s to %s", filterText(was.filter), filterText(is.filter))
	case viaRoot:
		for _, l := range was.leaves {
			if !slices.ContainsFunc(is.leaves, func(r catalog.TableRef) bool { return r.OID == l.OID }) {
				return fmt.Sprintf("its partition %s was detached or dropped, of which the log tells nothing: its rows are gone from the table and stay at the consumers", l.QualifiedName())
			}
		}
	}
	var out, in []string
	for _, c := range was.all {
		before, now := slices.Contains(was.columns, c), slices.Contains(is.columns, c)
		switch {
		case !slices.Contains(is.all, c): // dropped or renamed: the log shows it
		case before && !now:
			out = append(out, c)
		case !before && now:
			in = append(in, c)
		}
	}
	switch {
	case len(out) > 0:
		return fmt.Sprintf("the publication's column list no longer has (%s)", strings.Join(out, ", "))
	case len(in) > 0:
		return fmt.Sprintf("the publication's column list now has (%s) too", strings.Join(in, ", "))
	case was.member != is.member && was.member != 0 && is.member != 0:
		return putBack
	}
	return ""
}

func filterText(sql string) string {
	if sql == "" {
		return "none"
	}
	return sql
}
