package sim

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fate is what happens to one request and its answer.
type fate struct {
	kind    fateKind
	latency time.Duration
	delay   time.Duration // beyond it, for late and answerLate
	fault   kfake.Fault   // for refused
}

type fateKind int

const (
	passes     fateKind = iota
	lost                // the connection ends before the broker has the request
	answerLost          // it ends after the broker has done it
	late                // the request is under way for a while; it arrives even where its sender is gone
	answerLate
	refused    // the broker answers with an error
	killBefore // the worker ends as it sends the request
	killAfter  // it ends before it has the answer
	fateKinds
)

func (k fateKind) String() string {
	return [...]string{"passes", "lost", "answer lost", "late", "answer late", "refused", "killed before", "killed after"}[k]
}

var errUnreachable = errors.New("no route to the broker")

// host is the machine of one worker: all its connections go through it.
type host struct {
	worker  int
	virtual *kfake.VirtualNetwork
	decide  func(key int16) fate
	refuse  func(fault)
	epochs  *epochs
	all     *sync.WaitGroup // of the links' goroutines

	mu     sync.Mutex
	dead   chan struct{} // closed when the worker was killed
	frozen time.Time     // nothing passes before
	links  map[*link]struct{}
}

func (h *host) killed() bool {
	select {
	case <-h.dead:
		return true
	default:
		return false
	}
}

// kill ends the worker for the others: what it has sent may still arrive, nothing else of it will.
func (h *host) kill() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.killed() {
		return
	}
	close(h.dead)
	for l := range h.links {
		_ = l.client.Close()
	}
}

// freeze lets nothing pass for a while, in either direction.
func (h *host) freeze(d time.Duration) {
	h.mu.Lock()
	h.frozen = time.Now().Add(d)
	h.mu.Unlock()
}

// cut ends all connections.
func (h *host) cut() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.links {
		l.close()
	}
}

func (h *host) thaw() {
	for {
		h.mu.Lock()
		left := time.Until(h.frozen)
		h.mu.Unlock()
		if left <= 0 {
			return
		}
		time.Sleep(left)
	}
}

func (h *host) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if h.killed() {
		return nil, errUnreachable
	}
	h.mu.Lock()
	left := time.Until(h.frozen)
	h.mu.Unlock()
	if left > 0 {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(left):
		}
	}
	server, err := h.virtual.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	outer, inner := net.Pipe()
	l := &link{host: h, client: inner, server: server, under: make(chan underway, 1024)}
	h.mu.Lock()
	h.links[l] = struct{}{}
	h.mu.Unlock()
	h.all.Go(l.requests)
	h.all.Go(l.answers)
	return outer, nil
}

// link is one connection; its requests and answers pass one by one.
type link struct {
	host           *host
	client, server net.Conn
	under          chan underway // requests that the broker has
}

type underway struct {
	fate
	key, version int16
}

func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
}

func (l *link) requests() {
	defer func() {
		l.close()
		close(l.under)
		l.host.mu.Lock()
		delete(l.host.links, l)
		l.host.mu.Unlock()
	}()
	for {
		frame, err := readFrame(l.client)
		if err != nil || len(frame) < 12 || l.host.killed() {
			return
		}
		key := int16(binary.BigEndian.Uint16(frame[4:]))
		f := l.host.decide(key)
		if f.latency > 0 {
			time.Sleep(f.latency)
		}
		l.host.thaw()
		switch f.kind {
		case lost:
			return
		case killBefore:
			l.host.kill()
			return
		case late:
			time.Sleep(f.delay)
		case refused:
			l.host.refuse(f.fault)
		}
		if kmsg.Key(key) == kmsg.InitProducerID && !l.host.epochs.outdated(frame) {
			l.host.epochs.sent(l.host.worker)
		}
		l.under <- underway{f, key, int16(binary.BigEndian.Uint16(frame[6:]))}
		if _, err := l.server.Write(frame); err != nil {
			return
		}
	}
}

func (l *link) answers() {
	defer l.close()
	for {
		frame, err := readFrame(l.server)
		if err != nil {
			return
		}
		f, ok := <-l.under
		if !ok {
			return
		}
		if key := kmsg.Key(f.key); key == kmsg.InitProducerID || key == kmsg.EndTxn {
			l.host.epochs.saw(f.key, f.version, frame)
		}
		switch f.kind {
		case answerLost:
			return
		case killAfter:
			l.host.kill()
			return
		case answerLate:
			time.Sleep(f.delay)
		}
		l.host.thaw()
		if kmsg.Key(f.key) == kmsg.InitProducerID {
			l.host.epochs.delivered(l.host.worker)
		}
		if _, err := l.client.Write(frame); err != nil {
			return
		}
	}
}

func readFrame(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, 4+binary.BigEndian.Uint32(size[:]))
	copy(frame, size[:])
	_, err := io.ReadFull(r, frame[4:])
	return frame, err
}

// epochs knows the newest epoch of the one transactional id, by the answers that passed. kfake takes the produce of a fenced producer
// for the begin of a transaction of the one that fenced it, before it refuses it: see the package's comment. So such a
// produce is answered here, as a broker does.
type epochs struct {
	mu     sync.Mutex
	newest int16
	stale  int  // produces that were answered here
	owner  int  // worker whose InitProducerID came last
	knows  bool // and it has the answer
}

// sent tells that an InitProducerID reaches the broker.
func (e *epochs) sent(worker int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.owner, e.knows = worker, false
}

// delivered tells that the worker has the answer to the last InitProducerID of its own.
func (e *epochs) delivered(worker int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.knows = e.knows || e.owner == worker
}

// owns reports whether nobody has taken the id since the worker did.
func (e *epochs) owns(worker int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.owner == worker && e.knows
}

// saw takes the answer to a request of a kind.
func (e *epochs) saw(key, version int16, frame []byte) {
	request := kmsg.RequestForKey(key)
	request.SetVersion(version)
	answer := request.ResponseKind()
	body := frame[8:]
	if answer.IsFlexible() {
		body = body[1:] // no tags
	}
	if answer.ReadFrom(body) != nil {
		return
	}
	epoch := int16(-1)
	switch a := answer.(type) {
	case *kmsg.InitProducerIDResponse:
		if a.ErrorCode == 0 {
			epoch = a.ProducerEpoch
		}
	case *kmsg.EndTxnResponse:
		if a.ErrorCode == 0 && a.Version >= 5 {
			epoch = a.ProducerEpoch
		}
	}
	e.mu.Lock()
	e.newest = max(e.newest, epoch)
	e.mu.Unlock()
}

// outdated reports an InitProducerID of a producer that was fenced, and that a broker refuses; kfake does not.
func (e *epochs) outdated(frame []byte) bool {
	request := kmsg.NewPtrInitProducerIDRequest()
	request.SetVersion(int16(binary.BigEndian.Uint16(frame[6:])))
	body := frame[12:]
	if n := int16(binary.BigEndian.Uint16(body)); n > 0 {
		body = body[n:]
	}
	body = body[2:]
	if request.IsFlexible() {
		body = body[1:] // no tags
	}
	return request.ReadFrom(body) == nil && e.refuses(request)
}

func (e *epochs) refuses(request *kmsg.InitProducerIDRequest) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return request.ProducerID >= 0 && request.ProducerEpoch < e.newest
}

// init is for kfake.
func (e *epochs) init(kreq kmsg.Request) (kmsg.Response, error, bool) {
	request := kreq.(*kmsg.InitProducerIDRequest)
	if !e.refuses(request) {
		return nil, nil, false
	}
	answer := request.ResponseKind().(*kmsg.InitProducerIDResponse)
	answer.ErrorCode = kerr.ProducerFenced.Code
	return answer, nil, true
}

// produce is for kfake.
func (e *epochs) produce(kreq kmsg.Request) (kmsg.Response, error, bool) {
	const epochAt = 51 // in a record batch
	request := kreq.(*kmsg.ProduceRequest)
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, t := range request.Topics {
		for _, p := range t.Partitions {
			if len(p.Records) < epochAt+2 || int16(binary.BigEndian.Uint16(p.Records[epochAt:])) >= e.newest {
				return nil, nil, false
			}
		}
	}
	e.stale++
	answer := request.ResponseKind().(*kmsg.ProduceResponse)
	for _, t := range request.Topics {
		at := kmsg.NewProduceResponseTopic()
		at.Topic, at.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			ap := kmsg.NewProduceResponseTopicPartition()
			ap.Partition, ap.ErrorCode = p.Partition, kerr.InvalidProducerEpoch.Code
			at.Partitions = append(at.Partitions, ap)
		}
		answer.Topics = append(answer.Topics, at)
	}
	return answer, nil, true
}
