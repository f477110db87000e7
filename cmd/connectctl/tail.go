package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-cdc/tidemark/cmd/connectctl/internal/assembly"
	"github.com/tidemark-cdc/tidemark/cmd/connectctl/internal/records"
	"github.com/tidemark-cdc/tidemark/offsets/kafkastore"
	"github.com/tidemark-cdc/tidemark/pipeline/verify"
)

type tailFlags struct {
	conn      connectionFlags
	beginning bool
	untilEnd  bool
	most      int64
}

func newTailCommand() *cobra.Command {
	var f tailFlags
	cmd := &cobra.Command{
		Use:   "tail TOPIC",
		Short: "Print decoded records with their positions, as they are committed",
		Long: `Prints one line of JSON per committed record: partition, offset, gen, pos, seq, op, key and value. Starts at the end of
the topic and follows it, unless told otherwise.`,
		Args: exactly(1, "one topic"),
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := f.conn.load()
			if err != nil {
				return err
			}
			return f.tail(cmd.Context(), cmd.OutOrStdout(), w, args[0])
		},
	}
	f.conn.add(cmd)
	cmd.Flags().BoolVar(&f.beginning, "from-beginning", false, "start at the start of the topic")
	cmd.Flags().BoolVar(&f.untilEnd, "until-end", false, "stop where the topic ends now, instead of following it; implies --from-beginning")
	cmd.Flags().Int64VarP(&f.most, "max", "n", 0, "stop after so many records; 0: no limit")
	return cmd
}

// errEnough ends a read after --max records.
var errEnough = errors.New("enough")

func (f *tailFlags) tail(ctx context.Context, out io.Writer, w *assembly.Worker, topic string) error {
	if f.most < 0 {
		return usageError("--max %d is negative", f.most)
	}
	opts, err := consumer(ctx, w)
	if err != nil {
		return err
	}
	p := printer{out: out, topic: topic, left: f.most}
	if reg, err := w.Registry(); err == nil {
		defer reg.Close()
		p.decoder = records.NewDecoder(reg)
	} else {
		p.decoder = records.NewDecoder(nil)
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	defer cl.Close()
	ranges, err := committedRanges(ctx, kadm.NewClient(cl), []string{topic})
	if err != nil {
		return err
	}
	if f.untilEnd {
		err = p.bounded(ctx, opts, ranges)
	} else {
		err = p.follow(ctx, opts, ranges[topic], f.beginning)
	}
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// printer prints records of one topic.
type printer struct {
	out     io.Writer
	topic   string
	decoder *records.Decoder
	left    int64 // 0: no limit
	line    []byte
}

func (p *printer) bounded(ctx context.Context, opts []kgo.Opt, ranges map[string]map[int32]kafkastore.Range) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var ended error // why no more is printed; the read itself may be over by then
	err := kafkastore.Read(ctx, opts, ranges, func(r *kgo.Record) {
		if ended == nil {
			if ended = p.print(ctx, r); ended != nil {
				cancel()
			}
		}
	}, stalledRead())
	if ended != nil {
		return ended
	}
	return err
}

func (p *printer) follow(ctx context.Context, opts []kgo.Opt, ranges map[int32]kafkastore.Range, beginning bool) error {
	starts := map[int32]kgo.Offset{}
	for n, r := range ranges {
		starts[n] = kgo.NewOffset().At(r.To)
		if beginning {
			starts[n] = kgo.NewOffset().At(r.From)
		}
	}
	cl, err := kgo.NewClient(append(opts[:len(opts):len(opts)],
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{p.topic: starts}), kgo.FetchIsolationLevel(kgo.ReadCommitted()))...)
	if err != nil {
		return err
	}
	defer cl.Close()
	for {
		fetches := cl.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return err
		}
		for _, fe := range fetches.Errors() {
			if k := new(kerr.Error); errors.As(fe.Err, &k) && !k.Retriable {
				return fmt.Errorf("read topic %s partition %d: %w", fe.Topic, fe.Partition, fe.Err)
			}
		}
		for it := fetches.RecordIter(); !it.Done(); {
			if err := p.print(ctx, it.Next()); err != nil {
				return err
			}
		}
	}
}

// print writes one record and returns errEnough after the last one wanted.
func (p *printer) print(ctx context.Context, r *kgo.Record) error {
	b := append(p.line[:0], `{"partition":`...)
	b = strconv.AppendInt(b, int64(r.Partition), 10)
	b = append(b, `,"offset":`...)
	b = strconv.AppendInt(b, r.Offset, 10)
	m, ours, err := verify.MetaOf(r)
	switch {
	case err != nil:
		b = append(b, `,"problem":`...)
		b = strconv.AppendQuote(b, err.Error())
	case ours:
		b = append(b, `,"gen":`...)
		b = strconv.AppendInt(b, m.Generation, 10)
		b = append(append(b, `,"pos":`...), m.Pos...)
		b = append(b, `,"seq":`...)
		b = strconv.AppendInt(b, m.Seq, 10)
		b = append(append(append(b, `,"op":"`...), m.Op), '"')
	}
	for _, part := range []struct {
		name  string
		bytes []byte
	}{{`,"key":`, r.Key}, {`,"value":`, r.Value}} {
		b = append(b, part.name...)
		if b, err = p.decoder.AppendJSON(ctx, b, part.bytes); err != nil {
			return fmt.Errorf("decode the record at %s[%d] offset %d: %w", r.Topic, r.Partition, r.Offset, err)
		}
	}
	p.line = append(b, '}', '\n')
	if _, err := p.out.Write(p.line); err != nil {
		return err
	}
	if p.left > 0 {
		if p.left--; p.left == 0 {
			return errEnough
		}
	}
	return nil
}
