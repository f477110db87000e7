package assembly

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/integration/docs"
	"github.com/tidemark-cdc/tidemark/integration/env"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/pipeline"
	"github.com/tidemark-cdc/tidemark/pipeline/signal"
	"github.com/tidemark-cdc/tidemark/pipeline/sink"
	"github.com/tidemark-cdc/tidemark/pipeline/snapshot"
	"github.com/tidemark-cdc/tidemark/schema"
)

// A user with the documented rights, and no others, can do all that a connector does at Kafka.
func TestDocumentedRightsSuffice(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a real broker")
	}
	servers, err := env.Start(t.Context(), env.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = servers.Close() })
	kafka := servers.Kafka(t)
	grantDocumented(t, kafka)

	report := func(s connectors.State) { t.Log(s) }
	p, err := rightsConnector(t, kafka).open(slog.New(slog.NewTextHandler(t.Output(), nil)), report)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	s, err := p.newSink()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(t.Context()) }()
	topic := "rights-shop.public.t"
	stream := offsets.Entry{Partition: offsets.StreamPartition("rights-shop"), Offset: offsets.Object{{Name: "boundary_lsn", Value: "0/1"}}}
	step := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	step("fence", s.Fence(t.Context()))
	_, err = p.topics.Ensure(t.Context(), topic, false)
	step("create the data topic", err)
	step("write", s.Write(t.Context(), &pipeline.Chunk{Records: []pipeline.Record{
		{Topic: topic, Key: []byte("k"), Value: []byte("v"), Timestamp: time.Now().UnixMilli(), Headers: []pipeline.Header{{Key: "__gen", Value: []byte("3")}}},
		{Topic: "rights-shop.__generations", Key: []byte("k"), Value: []byte(`{"gen":3}`), Timestamp: time.Now().UnixMilli()},
	}}))
	step("commit", s.Commit(t.Context(), stream))
	stored, err := p.store.Load(t.Context())
	step("load", err)
	if o, ok := offsets.Find(stored, stream.Partition); !ok || !o.Equal(stream.Offset) {
		t.Errorf("got %v", stored)
	}
	highest, err := sink.NewGenerations(p.consume, func(*schema.Table) string { return topic }, "rights-shop.__generations").Highest(t.Context(), []*schema.Table{{Name: "t"}})
	step("find the generation", err)
	if highest != 3 {
		t.Errorf("generation %d", highest)
	}
	sent := signal.Signal{ID: "1", Type: signal.TypePause}
	step("send a signal", p.c.Signal(t.Context(), sent))
	got := errors.New("end")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var of snapshot.Config
	p.signals(&of)
	err = of.Channels[0].Run(ctx, "", func(s signal.Signal) {
		if s.ID == sent.ID {
			cancel(got)
		}
	})
	if !errors.Is(context.Cause(ctx), got) {
		t.Errorf("read signals: %v", err)
	}
}

func rightsConnector(t *testing.T, kafka *env.Kafka) *Connector {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	w, err := LoadWorker(write("worker.properties", "bootstrap.servers="+kafka.SASLBootstrap()+`
security.protocol=SASL_PLAINTEXT
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="`+env.NoRightsUser+`" password="`+env.NoRightsUser+`";
schema.registry.url=http://127.0.0.1:1
group.id=rights-tidemark
offset.storage.topic=rights-tidemark-offsets
`))
	if err != nil {
		t.Fatal(err)
	}
	c, err := LoadConnector(w, write("connector.properties", `name=rights-shop
connector.class=postgres
topic.prefix=rights-shop
database.hostname=localhost
database.user=u
database.dbname=d
snapshot.mode=no_data
`))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// grantDocumented grants what the table in docs/operations.md says, with names of this test, and takes it back at the end.
func grantDocumented(t *testing.T, kafka *env.Kafka) {
	t.Helper()
	admin, err := kgo.NewClient(kgo.SeedBrokers(kafka.SASLBootstrap()), kgo.SASL(plain.Auth{User: env.AdminUser, Pass: env.AdminUser}.AsMechanism()))
	if err != nil {
		t.Fatal(err)
	}
	adm := kadm.NewClient(admin)
	create := kmsg.NewPtrCreateACLsRequest()
	for _, cells := range documentedRights(t) {
		for _, operation := range strings.Split(cells[3], ", ") {
			a := kmsg.NewCreateACLsRequestCreation()
			a.Principal, a.Host, a.PermissionType = "User:"+env.NoRightsUser, "*", kmsg.ACLPermissionTypeAllow
			var errs [3]error
			a.ResourceType, errs[0] = kmsg.ParseACLResourceType(cells[0])
			a.ResourcePatternType, errs[1] = kmsg.ParseACLResourcePatternType(cells[1])
			a.Operation, errs[2] = kmsg.ParseACLOperation(operation)
			for _, err := range errs {
				if err != nil {
					t.Fatalf("docs/operations.md: %v: %v", cells, err)
				}
			}
			a.ResourceName = strings.Trim(cells[2], "`")
			switch a.ResourceType {
			case kmsg.ACLResourceTypeCluster:
			case kmsg.ACLResourceTypeTransactionalId:
				a.ResourceName = strings.ReplaceAll("rights-"+a.ResourceName, "-shop-", "-rights-shop-")
			default:
				a.ResourceName = "rights-" + a.ResourceName
			}
			create.Creations = append(create.Creations, a)
		}
	}
	response, err := create.RequestWith(t.Context(), admin)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range response.Results {
		if r.ErrorCode != 0 {
			t.Fatalf("grant: error code %d", r.ErrorCode)
		}
	}
	t.Cleanup(func() {
		for _, a := range create.Creations {
			b := kadm.NewACLs().Allow(a.Principal).AllowHosts("*").ResourcePatternType(a.ResourcePatternType).Operations(a.Operation)
			switch a.ResourceType {
			case kmsg.ACLResourceTypeTopic:
				b = b.Topics(a.ResourceName)
			case kmsg.ACLResourceTypeTransactionalId:
				b = b.TransactionalIDs(a.ResourceName)
			default:
				b = b.Clusters()
			}
			_, _ = adm.DeleteACLs(context.Background(), b)
		}
		admin.Close()
	})
}

// documentedRights returns the rows of the table: resource, pattern, name, operations.
func documentedRights(t *testing.T) [][]string {
	t.Helper()
	_, rest, _ := strings.Cut(docs.Page(t, "docs/operations.md"), "<!-- begin acls -->")
	table, _, _ := strings.Cut(rest, "<!-- end acls -->")
	var rows [][]string
	for _, line := range strings.Split(strings.TrimSpace(table), "\n") {
		var cells []string
		for _, c := range strings.Split(strings.Trim(line, "|"), "|") {
			cells = append(cells, strings.TrimSpace(c))
		}
		if len(cells) == 5 && cells[0] == strings.ToUpper(cells[0]) && cells[0] != "---" {
			rows = append(rows, cells)
		}
	}
	if len(rows) != 5 {
		t.Fatalf("the table of rights has %d rows: %v", len(rows), rows)
	}
	return rows
}
