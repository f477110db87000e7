package sink

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/pipeline"
)

// BenchmarkSink writes chunks of 1,000 records of about 200 bytes, 20 chunks a Kafka transaction,
// to the real broker. One operation is one record.
func BenchmarkSink(b *testing.B) {
	for _, run := range []struct {
		commitEvery int
		pause       time.Duration
	}{{20_000, 0}, {1, 0}, {1, -1}} {
		commitEvery := run.commitEvery
		b.Run(fmt.Sprintf("commit=%d,pause=%d", commitEvery, run.pause), func(b *testing.B) {
			c := realCluster(b)
			cfg := c.config()
			cfg.Pause = run.pause
			s := c.sink(cfg)
			perChunk := min(1000, commitEvery)
			chunks := make([]*pipeline.Chunk, 8)
			for i := range chunks {
				chunks[i] = benchChunk(c.topic, perChunk)
			}
			entry := offsets.Entry{Partition: offsets.StreamPartition("s"), Offset: offsets.Object{{Name: "n", Value: int64(1)}}}
			b.ReportAllocs()
			start, n := time.Now(), 0
			for i := 0; n < b.N; i++ {
				ch := chunks[i%len(chunks)]
				for ch.Scratch != nil && ch.Scratch.(*batch).left.Load() > 0 { // this chunk's last round is still on its way
					if err := s.session.cl.Flush(context.Background()); err != nil {
						b.Fatal(err)
					}
				}
				if err := s.Write(context.Background(), ch); err != nil {
					b.Fatal(err)
				}
				if n += perChunk; n%commitEvery == 0 {
					if err := s.Commit(context.Background(), entry); err != nil {
						b.Fatal(err)
					}
				}
			}
			if err := s.Commit(context.Background(), entry); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(n)/time.Since(start).Seconds(), "records/s")
		})
	}
}

func benchChunk(topic string, n int) *pipeline.Chunk {
	c := &pipeline.Chunk{Buf: make([]byte, 200*n)}
	for i := range n {
		b := c.Buf[200*i : 200*i+200]
		c.Headers = append(c.Headers, pipeline.Header{Key: "__pos", Value: b[:20]}, pipeline.Header{Key: "__seq", Value: b[:3]}, pipeline.Header{Key: "__gen", Value: b[:1]}, pipeline.Header{Key: "__op", Value: b[:1]})
		c.Records = append(c.Records, pipeline.Record{Topic: topic, Partition: int32(i % 2), Key: b[:12], Value: b[12:160], Timestamp: 1_700_000_000_000})
	}
	for i := range c.Records {
		c.Records[i].Headers = c.Headers[4*i : 4*i+4]
	}
	return c
}
