package shop

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sort"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Traffic is what the shop's staff share.
type Traffic struct {
	orders atomic.Int64 // the last order's id
	people atomic.Int64 // customers added
}

// Staff works until stop is closed, one transaction about every pace. A transaction that began is
// finished first, so a caller that waited for Staff knows that nothing more will be written.
func (s Shop) Staff(ctx context.Context, conn *pgx.Conn, t *Traffic, pace time.Duration, stop <-chan struct{}) error {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		b := &pgx.Batch{}
		s.work(b, t)
		err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return tx.SendBatch(ctx, b).Close() })
		var pg *pgconn.PgError
		switch {
		case err == nil:
		case errors.As(err, &pg) && (pg.Code == "40P01" || pg.Code == "40001"): // deadlock, serialization: rolled back
		default:
			return fmt.Errorf("work in the shop: %w", err)
		}
	}
}

// work queues one transaction.
func (s Shop) work(b *pgx.Batch, t *Traffic) {
	switch n := rand.IntN(100); {
	case n < 55:
		s.order(b, t)
	case n < 75:
		b.Queue(s.sql("UPDATE {orders} SET status = $2 WHERE id = $1"), recent(t), [...]string{"paid", "packed", "shipped"}[rand.IntN(3)])
	case n < 83: // a cancelled order
		id := recent(t)
		b.Queue(s.sql("DELETE FROM {order_lines} WHERE order_id = $1"), id)
		b.Queue(s.sql("DELETE FROM {orders} WHERE id = $1"), id)
	case n < 87: // key changes
		b.Queue(s.sql("UPDATE {order_lines} SET line = line + 100 WHERE order_id = $1"), recent(t))
	case n < 92:
		id := customers + t.people.Add(1)
		b.Queue(s.sql("INSERT INTO {customers} VALUES ($1, $2, $3, NULL)"), id, fmt.Sprintf("Customer %d", id), fmt.Sprintf("c%d@example.com", id))
	case n < 97:
		b.Queue(s.sql("UPDATE {customers} SET city = $2 WHERE id = $1"), 1+rand.IntN(customers), [...]string{"Graz", "Malmö", "Kraków", "São Paulo"}[rand.IntN(4)])
	default: // two customers at once
		b.Queue(s.sql("UPDATE {customers} SET email = 'new-' || email WHERE id BETWEEN $1 AND $1 + 1 AND length(email) < 40"), 1+rand.IntN(customers))
	}
}

func (s Shop) order(b *pgx.Batch, t *Traffic) {
	id := t.orders.Add(1)
	picked := rand.Perm(products)[:1+rand.IntN(4)]
	sort.Ints(picked) // one order of locking for all staff
	var cents int
	for i, p := range picked {
		quantity, price := 1+rand.IntN(3), 99+rand.IntN(9900)
		cents += quantity * price
		b.Queue(s.sql("INSERT INTO {order_lines} VALUES ($1, $2, $3, $4, $5::bigint / 100.0)"), id, i+1, p+1, quantity, price)
		b.Queue(s.sql("UPDATE {stock} SET quantity = quantity - $2, counted_at = now() WHERE product_id = $1"), p+1, quantity)
	}
	b.Queue(s.sql("INSERT INTO {orders} VALUES ($1, $2, 'new', $3::bigint / 100.0)"), id, 1+rand.IntN(customers), cents)
}

// recent is the id of one of the last orders.
func recent(t *Traffic) int64 {
	last := t.orders.Load()
	if last < 2 {
		return last
	}
	return last - rand.Int64N(min(last, 50))
}
