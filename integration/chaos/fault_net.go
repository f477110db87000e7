package chaos

import (
	"math/rand/v2"

	"github.com/tidemark-cdc/tidemark/integration/env/proxy"
)

// cut refuses and resets connections for a while.
func cut(l *lab, p *proxy.Proxy, r *rand.Rand) error {
	p.Cut()
	l.awhile(r, 700)
	return p.Restore()
}

// delayed holds everything back for a while, several times; nothing is lost.
func delayed(l *lab, p *proxy.Proxy, r *rand.Rand) error {
	for range 1 + r.IntN(3) {
		p.Pause()
		l.awhile(r, 400)
		p.Resume()
		l.awhile(r, 50)
	}
	return nil
}

// halfOpen loses one direction, then the connections: what was asked is done and the answer lost, or what was asked is lost.
func halfOpen(l *lab, p *proxy.Proxy, r *rand.Rand) error {
	p.Pause(proxy.Direction(r.IntN(2)))
	l.awhile(r, 400)
	p.Reset()
	p.Resume()
	return nil
}

func slow(l *lab, p *proxy.Proxy, r *rand.Rand) error {
	p.Throttle(20_000 + r.IntN(200_000))
	l.awhile(r, 900)
	p.Throttle(0)
	return nil
}
