package snapshot

import (
	"context"
	"errors"
	"io"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/schema"
)

// exported hands out tables by turns.
type exported struct {
	f    *fake
	runs []connectors.ExportedRows
	pos  string
	last []schema.Row
}

func (f *fake) exported() *exported {
	e := &exported{f: f, pos: pos(f.tx)}
	for _, i := range f.captured {
		if f.d.joinAt[i] > f.tx {
			continue
		}
		def := f.d.version(i, f.tx)
		m := asOf(f.d.base[i], f.d.log[:f.tx], i)
		var rows []schema.Row
		n := 0
		for id, r := range m {
			rows = append(rows, values(id, r))
			if n++; n == f.breaks && i == 0 {
				break
			}
			if len(rows) == 7 {
				e.runs = append(e.runs, connectors.ExportedRows{Table: def, Rows: rows, ReadTime: 1})
				rows = nil
			}
		}
		run := connectors.ExportedRows{Table: def, Rows: rows, Last: true, ReadTime: 1}
		if f.breaks > 0 && i == 0 {
			run.Last, run.Err = false, errors.New("the worker's connection broke")
			run.Rows = nil
		}
		e.runs = append(e.runs, run)
	}
	return e
}

func (e *exported) Tables() (out []connectors.ExportedTable) {
	for _, i := range e.f.captured {
		if e.f.d.joinAt[i] > e.f.start {
			continue
		}
		out = append(out, connectors.ExportedTable{Table: e.f.d.tables[i], Rows: -1})
	}
	return out
}

func (e *exported) Next(context.Context) (connectors.ExportedRows, error) {
	for _, r := range e.last {
		spoil(r)
	}
	e.last = nil
	if len(e.runs) == 0 {
		return connectors.ExportedRows{}, io.EOF
	}
	r := e.runs[0]
	e.runs, e.last = e.runs[1:], r.Rows
	return r, nil
}
func (e *exported) Position() string            { return e.pos }
func (e *exported) Close(context.Context) error { return nil }
