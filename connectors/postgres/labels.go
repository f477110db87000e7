package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tidemark-cdc/tidemark/connectors/postgres/pgoutput"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/values"
)

// errUnknownLabel goes on where the sentence of an UnknownLabelError ends.
var errUnknownLabel = errors.New("the catalogue does not have it either, so it was renamed after this place of the log; rename it back until the stream has passed, or set " +
	propUnknownLabels + "=accept")

// change applies a row message. A label that an enum did not have when the catalogue was read is looked up
// there once more: ALTER TYPE … ADD VALUE leaves no trace in the log. The message is then applied again, from its first ordinal.
func (a *assembler) change(ctx context.Context, kind pgoutput.Kind) error {
	seq, changes, published := a.seq, len(a.changes), a.published
	for {
		err := a.apply(kind)
		if err == nil {
			return nil
		}
		var unknown *values.UnknownLabelError // escapes, so not before there is an error
		if !errors.As(err, &unknown) {
			return err
		}
		rel, labelErr := a.describer.relabel(ctx, a.lastID, unknown)
		switch {
		case errors.Is(labelErr, errUnknownLabel):
			return fmt.Errorf("%w: %w", err, labelErr)
		case labelErr != nil:
			return a.at(labelErr)
		}
		a.relations[a.lastID], a.last = rel, rel
		a.captured.put(rel.table)
		a.seq, a.changes, a.published = seq, a.changes[:changes], published
	}
}

func (a *assembler) apply(kind pgoutput.Kind) error {
	switch kind {
	case pgoutput.KindInsert:
		return a.insert(&a.decoder.Insert)
	case pgoutput.KindUpdate:
		return a.update(&a.decoder.Update)
	}
	return a.delete(&a.decoder.Delete)
}

// relabel plans a table again after a label that its plan does not know. It returns errUnknownLabel where the
// catalogue does not know it either, unless such labels are accepted.
func (p *planner) relabel(ctx context.Context, oid uint32, unknown *values.UnknownLabelError) (*relation, error) {
	before := p.tables[oid]
	resolve, err := p.lookup.types(ctx, true, unknown.Type)
	if err != nil {
		return nil, fmt.Errorf("read the labels of an enum of table %s from the catalogue: %w", before.table.QualifiedName(), err)
	}
	info, _ := resolve(unknown.Type)
	if !slices.Contains(info.Labels, unknown.Label) {
		if !p.acceptLabels {
			return nil, errUnknownLabel
		}
		p.labels[unknown.Type] = append(p.labels[unknown.Type], unknown.Label)
	}
	now, err := p.lookup.table(ctx, oid)
	if err != nil {
		return nil, fmt.Errorf("read table %s from the catalogue: %w", before.table.QualifiedName(), err)
	}
	plan, table, err := p.build(ctx, before.from, now, before.key, true, false)
	if err != nil {
		return nil, err
	}
	next := &known{table: table, key: before.key, pinned: before.pinned, wire: before.wire, from: before.from, plan: plan}
	next.inherit(before, now)
	p.tables[oid] = next
	return plan, nil
}

// withLabels adds the labels accepted to those of the catalogue.
func (p *planner) withLabels(resolve values.Resolver) values.Resolver {
	if len(p.labels) == 0 {
		return resolve
	}
	return func(oid uint32) (values.TypeInfo, bool) {
		info, ok := resolve(oid)
		if more := p.labels[oid]; ok && len(more) > 0 {
			info.Labels = append(slices.Clone(info.Labels), more...)
		}
		return info, ok
	}
}
