package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-cdc/tidemark/cmd/connectctl/internal/assembly"
	"github.com/tidemark-cdc/tidemark/cmd/connectctl/internal/dedupview"
	"github.com/tidemark-cdc/tidemark/offsets/kafkastore"
	"github.com/tidemark-cdc/tidemark/pipeline/verify"
	"github.com/tidemark-cdc/tidemark/schema/registry"
)

type dedupViewFlags struct {
	conn                     connectionFlags
	table, view, generations string
	key, columns             []string
	spec                     dedupview.Spec
}

func newDedupViewCommand() *cobra.Command {
	var f dedupViewFlags
	cmd := &cobra.Command{
		Use:   "dedup-view TOPIC",
		Short: "Print the SQL of a view of the current rows over the table a topic was loaded into",
		Long: `The table has a row per record and the columns of the flat value; tombstones may be there or not. The view shows
the newest record of each key, deletes removed, and where that does not carry a column, its last value. Key and columns come from
the topic's schemas in the registry, the engine from a record; what flags give is not looked up, and with --key, --columns and
--engine nothing is asked.`,
		Args: exactly(1, "one topic"),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.spec.Topic = args[0]
			return f.print(cmd.Context(), cmd.OutOrStdout())
		},
	}
	f.conn.add(cmd)
	fl := cmd.Flags()
	fl.StringVar(&f.spec.Dialect, "dialect", "", "SQL of "+strings.Join(dedupview.Dialects(), ", "))
	fl.StringVar(&f.table, "table", "", "the loaded table, SCHEMA.NAME; default: the topic's name with underscores")
	fl.StringVar(&f.view, "view", "", "the view; default: the table's name and _current")
	fl.StringVar(&f.generations, "generations", "", "table with the columns gen and baseline into which <prefix>.__generations was loaded; without it all generations count, in order")
	fl.StringSliceVar(&f.key, "key", nil, "key columns as they are in the table, separated by commas")
	fl.StringSliceVar(&f.columns, "columns", nil, "all columns but the metadata as they are in the table, separated by commas")
	fl.StringVar(&f.spec.Engine, "engine", "", "database the records come from: "+strings.Join(dedupview.Engines(), ", "))
	fl.StringVar(&f.spec.Prefix, "metadata-prefix", "", "the connector's metadata.field.prefix; default: the schema's, else __")
	fl.StringVar(&f.spec.Fold, "fold", "", "upper or lower, where the loader changed the case of column names")
	return cmd
}

func (f *dedupViewFlags) print(ctx context.Context, out io.Writer) error {
	s := &f.spec
	if s.Dialect == "" {
		return usageError("say which SQL to write: --dialect %s", strings.Join(dedupview.Dialects(), "|"))
	}
	if s.Engine != "" && !slices.Contains(dedupview.Engines(), s.Engine) {
		return usageError("--engine %q is not one of %s", s.Engine, strings.Join(dedupview.Engines(), ", "))
	}
	if err := f.names(); err != nil {
		return usageError("%w", err)
	}
	if s.Engine == "" || len(f.key) == 0 || len(f.columns) == 0 {
		prefix := s.Prefix
		if err := f.lookUp(ctx); err != nil {
			return err
		}
		if prefix != "" {
			s.Prefix = prefix
		}
	}
	if len(f.key) > 0 {
		s.Key = f.key
	}
	if len(f.columns) > 0 {
		s.Columns = nil
		for _, name := range f.columns {
			s.Columns = append(s.Columns, dedupview.ColumnOf(name))
		}
	}
	sql, err := s.SQL()
	if err != nil {
		return usageError("%w", err)
	}
	_, err = io.WriteString(out, sql)
	return err
}

// names takes the names of table, view and activation records from the flags or the topic.
func (f *dedupViewFlags) names() (err error) {
	s := &f.spec
	s.Table = []string{dedupview.TableOf(s.Topic)}
	if f.table != "" {
		if s.Table, err = dedupview.ParseName(f.table); err != nil {
			return fmt.Errorf("--table: %w", err)
		}
	}
	s.View = slices.Clone(s.Table)
	s.View[len(s.View)-1] += "_current"
	if f.view != "" {
		if s.View, err = dedupview.ParseName(f.view); err != nil {
			return fmt.Errorf("--view: %w", err)
		}
	}
	if f.generations != "" {
		if s.Generations, err = dedupview.ParseName(f.generations); err != nil {
			return fmt.Errorf("--generations: %w", err)
		}
	}
	return nil
}

// lookUp asks Kafka for a record and the registry for the schemas, as far as the flags do not tell.
func (f *dedupViewFlags) lookUp(ctx context.Context) error {
	var reg *registry.Client
	var sample record
	if f.conn.worker == "" && f.conn.brokers == "" {
		if f.conn.registry == "" {
			return usageError("say where Kafka and the schema registry are (--worker FILE), or give --key, --columns and --engine")
		}
		if f.spec.Engine == "" {
			return usageError("give --engine, or --bootstrap-servers to tell it from a record")
		}
		var err error
		if reg, err = registry.New(registry.Config{URLs: strings.Split(f.conn.registry, ",")}); err != nil {
			return usageError("--schema-registry-url: %w", err)
		}
	} else {
		w, err := f.conn.load()
		if err != nil {
			return err
		}
		if sample, err = firstRecord(ctx, w, f.spec.Topic); err != nil {
			return err
		}
		if err := f.engine(sample); err != nil {
			return err
		}
		if len(f.key) > 0 && len(f.columns) > 0 {
			return nil
		}
		if reg, err = w.Registry(); err != nil {
			return usageError("%w; or give --key and --columns", err)
		}
	}
	defer reg.Close()
	return f.schemas(ctx, reg, sample)
}

func (f *dedupViewFlags) engine(sample record) (err error) {
	if f.spec.Engine != "" {
		return nil
	}
	if sample.pos == "" {
		return fmt.Errorf("topic %s holds no record that tells the engine: give --engine", f.spec.Topic)
	}
	f.spec.Engine, err = dedupview.EngineOf(sample.pos)
	return err
}

// schemas takes key and columns from the newest schemas of the topic's subjects, or where the registry has no
// such subjects from those of the record.
func (f *dedupViewFlags) schemas(ctx context.Context, reg *registry.Client, sample record) error {
	topic := f.spec.Topic
	value, err := latestOr(ctx, reg, topic+"-value", sample.value)
	if err != nil {
		return err
	}
	key := ""
	if len(f.key) == 0 {
		key, err = latestOr(ctx, reg, topic+"-key", sample.key)
		if registry.IsNotFound(err) {
			return fmt.Errorf("%w: a table without a key has no newest record of a row; else give --key", err)
		} else if err != nil {
			return err
		}
	}
	return f.spec.FromSchemas(key, value)
}

func latestOr(ctx context.Context, reg *registry.Client, subject string, wire []byte) (string, error) {
	text, err := reg.Latest(ctx, subject)
	if err == nil || !registry.IsNotFound(err) {
		return text, err
	}
	if id, _, bad := registry.ParseHeader(wire); bad == nil {
		return reg.SchemaByID(ctx, id)
	}
	return "", err
}

// record is what the view needs of one.
type record struct {
	pos        string
	key, value []byte
}

// firstRecord returns the first change record that is read from a topic, an empty one where there is none.
func firstRecord(ctx context.Context, w *assembly.Worker, topic string) (found record, err error) {
	opts, err := consumer(ctx, w)
	if err != nil {
		return found, err
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return found, err
	}
	defer cl.Close()
	ranges, err := committedRanges(ctx, kadm.NewClient(cl), []string{topic})
	if err != nil {
		return found, err
	}
	reading, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	err = kafkastore.Read(reading, opts, ranges, func(r *kgo.Record) {
		if m, ours, err := verify.MetaOf(r); found.pos == "" && ours && err == nil && r.Value != nil {
			found = record{m.Pos, slices.Clone(r.Key), slices.Clone(r.Value)}
			stop(errEnough)
		}
	}, stalledRead())
	if errors.Is(context.Cause(reading), errEnough) {
		return found, nil
	}
	if err != nil {
		return found, fmt.Errorf("read %s: %w", topic, err)
	}
	return found, nil
}
