package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// line is one record of a recording. A side is null, or its payload with the number of its schema in <case>.schemas.json:
// JSON as the converter wrote it, Avro bodies in hex.
type line struct {
	Topic   string   `json:"topic"`
	Key     *side    `json:"key"`
	Value   *side    `json:"value"`
	Headers []header `json:"headers"`
}

type side struct {
	Schema  int             `json:"schema"`
	Payload json.RawMessage `json:"payload"`
}

type header struct {
	Key   string `json:"key"`
	Value string `json:"value"` // JSON with its schema as text, as Connect's header converter wrote it
}

type consumer struct {
	r       *recorder
	avro    bool
	prefix  string
	schemas []json.RawMessage
	known   map[string]int
	ids     map[uint32]int
}

// consume reads everything below a prefix until the end mark and a while longer.
func (r *recorder) consume(ctx context.Context, name, prefix string) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(r.kafka), kgo.ConsumeRegex(), kgo.ConsumeTopics("^"+prefix+`\..*$`),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.MetadataMinAge(200*time.Millisecond), kgo.MetadataMaxAge(time.Second))
	if err != nil {
		return err
	}
	defer cl.Close()
	c := consumer{r: r, avro: name == "avro", prefix: prefix, known: map[string]int{}, ids: map[uint32]int{}}
	byTopic := map[string][]string{}
	deadline, ended := time.Now().Add(3*time.Minute), false
	for {
		wait, cancel := context.WithTimeout(ctx, retention)
		fetches := cl.PollFetches(wait)
		cancel()
		for _, rec := range fetches.Records() {
			l, err := c.line(ctx, rec)
			if err != nil {
				return err
			}
			byTopic[l.Topic] = append(byTopic[l.Topic], marshal(l))
			ended = ended || strings.HasSuffix(l.Topic, ".endmark")
		}
		if ended && len(fetches.Records()) == 0 {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("no end mark came")
		}
	}
	var b strings.Builder
	for _, t := range sorted(byTopic) {
		for _, l := range byTopic[t] {
			b.WriteString(l + "\n")
		}
	}
	if err := r.write(name+".jsonl", b.String()); err != nil {
		return err
	}
	var all strings.Builder
	for i, s := range c.schemas {
		all.WriteString(map[bool]string{true: "[\n", false: ",\n"}[i == 0])
		all.Write(s)
	}
	return r.write(name+".schemas.json", all.String()+"\n]\n")
}

func (c *consumer) line(ctx context.Context, rec *kgo.Record) (line, error) {
	l := line{Topic: c.rename(rec.Topic)}
	var err error
	if l.Key, err = c.side(ctx, rec.Key); err != nil {
		return l, err
	}
	if l.Value, err = c.side(ctx, rec.Value); err != nil {
		return l, err
	}
	for _, h := range rec.Headers {
		l.Headers = append(l.Headers, header{h.Key, c.rename(string(h.Value))})
	}
	return l, nil
}

func (c *consumer) rename(s string) string { return strings.ReplaceAll(s, c.prefix, "golden") }

func (c *consumer) side(ctx context.Context, b []byte) (*side, error) {
	if b == nil {
		return nil, nil
	}
	if c.avro {
		return c.avroSide(ctx, b)
	}
	var s struct{ Schema, Payload json.RawMessage }
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, err
	}
	return &side{c.number([]byte(c.rename(string(s.Schema)))), json.RawMessage(c.rename(string(s.Payload)))}, nil
}

// avroSide keeps the body as it is: the prefix in it has another length than "golden", so it is the test that maps it.
func (c *consumer) avroSide(ctx context.Context, b []byte) (*side, error) {
	id := binary.BigEndian.Uint32(b[1:])
	n, ok := c.ids[id]
	if !ok {
		text, err := c.r.get(ctx, fmt.Sprintf("/apis/ccompat/v7/schemas/ids/%d", id))
		if err != nil {
			return nil, err
		}
		var s struct{ Schema string }
		if err := json.Unmarshal(text, &s); err != nil {
			return nil, err
		}
		n = c.number([]byte(c.rename(s.Schema)))
		c.ids[id] = n
	}
	body, err := json.Marshal(hex.EncodeToString(b[5:]))
	return &side{n, body}, err
}

func (c *consumer) number(schema []byte) int {
	var b bytes.Buffer
	if json.Compact(&b, schema) != nil {
		b.Write(schema)
	}
	if n, ok := c.known[b.String()]; ok {
		return n
	}
	c.known[b.String()] = len(c.schemas)
	c.schemas = append(c.schemas, json.RawMessage(b.Bytes()))
	return len(c.schemas) - 1
}
