package encode

import (
	"context"
	"errors"

	"github.com/tidemark-cdc/tidemark/pipeline"
	"github.com/tidemark-cdc/tidemark/schema/connect"
)

// Registry gives the id of a schema in a subject, registering it where that is allowed.
// registry.Client is one. An error that registry.Blocks accepts blocks; any other is waited for.
type Registry interface {
	Resolve(ctx context.Context, subject, schemaText string) (id int, err error)
	// SchemaByID returns a schema's text; registry.IsNotFound tells that there is none.
	SchemaByID(ctx context.Context, id int) (schemaText string, err error)
}

// Topics gives the facts of data topics and creates missing ones; sink.Topics is one. Its errors name topic and way
// out; those without a class are waited for. A topic that was used before is not created anew: its records would be missing
// without a word. Forget makes the next Ensure look again. Both may be called from several goroutines.
type Topics interface {
	Ensure(ctx context.Context, topic string, used bool) (pipeline.TopicInfo, error)
	Forget(topic string)
}

// Config configures an Encoder.
type Config struct {
	Prefix         string            // topic.prefix: begins the topics' names
	Overrides      map[string]string // topic.naming.overrides: topic by qualified name of the table
	Tombstones     bool              // tombstones.on.delete: a delete is followed by a tombstone
	Deletes        bool              // deletes.on.delete: a delete is published as a record with __op d; not both off. A keyless table's deletes always are
	MetadataPrefix string            // metadata.field.prefix: begins the metadata fields of values; empty: "__"
	MaxRequestSize int               // max.request.size: largest record the producer takes, in bytes; 0: 1 MiB

	Format           Format            // of keys and values; nil: flat
	Key, Value       connect.Converter // of the flat format; a Format of its own has them
	Transactions     bool              // provide.transaction.metadata: the end of every source transaction is published
	TransactionTopic string            // topic.transaction; empty: <prefix>.transaction

	Server   string // server of the offset partitions; empty: Prefix
	Registry Registry
	Topics   Topics
}

const defaultMaxRequestSize = 1 << 20

// maxTopic is Kafka's limit for a topic's name, in characters.
const maxTopic = 249

var errNoDeletes = errors.New("tombstones.on.delete and deletes.on.delete cannot both be false: deletes would be lost")
