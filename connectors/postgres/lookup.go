package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-cdc/tidemark/connectors/postgres/catalog"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/values"
)

// live reads the catalogue over the sentinel's connection.
type live struct {
	run func(context.Context, func(context.Context, *pgx.Conn) error) error
	set catalog.TypeSet
}

func (l *live) table(ctx context.Context, oid uint32) (t *catalog.Table, err error) {
	err = l.run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		t, err = catalog.ReadTable(ctx, conn, oid)
		return err
	})
	return t, err
}

func (l *live) types(ctx context.Context, fresh bool, oids ...uint32) (values.Resolver, error) {
	var missing []uint32
	for _, oid := range oids {
		if _, ok := l.set[oid]; !ok || (fresh && (l.set[oid].Kind != 'b' || l.set[oid].ElemOID != 0)) {
			missing = append(missing, oid)
		}
	}
	if len(missing) > 0 {
		err := l.run(ctx, func(ctx context.Context, conn *pgx.Conn) error { return l.set.Load(ctx, conn, missing...) })
		if err != nil {
			return nil, err
		}
	}
	return resolver(l.set), nil
}

// resolver shows the values package the types of a set.
func resolver(set catalog.TypeSet) values.Resolver {
	return func(oid uint32) (values.TypeInfo, bool) {
		t := set[oid]
		if t == nil {
			return values.TypeInfo{}, false
		}
		return values.TypeInfo{
			OID: t.OID, Namespace: t.Namespace, Name: t.Name, Kind: t.Kind, Elem: t.ElemOID,
			Base: t.BaseOID, BaseTypmod: t.BaseTypmod, Delim: t.Delim, Labels: t.Labels,
		}, true
	}
}
