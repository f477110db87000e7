package badinput

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tidemark-cdc/tidemark/integration/env"
	"github.com/tidemark-cdc/tidemark/integration/env/proxy"
)

func login(user, password string) func(*stage) {
	return func(s *stage) {
		s.worker["bootstrap.servers"] = s.kafka.SASLBootstrap()
		s.worker["security.protocol"] = "SASL_PLAINTEXT"
		s.worker["sasl.mechanism"] = "SCRAM-SHA-256"
		s.worker["sasl.jaas.config"] = fmt.Sprintf("org.apache.kafka.common.security.scram.ScramLoginModule required username=%q password=%q;", user, password)
	}
}

func kafkas() []mistake {
	plain := func(s *stage) { s.worker["bootstrap.servers"] = s.kafka.Bootstrap() }
	return []mistake{
		{name: "file kafka away", make: setWorker("bootstrap.servers", "127.0.0.1:1"), repair: plain,
			words: []string{"cannot reach Kafka at 127.0.0.1:1: connection refused; check bootstrap.servers and that the broker runs"}},
		{name: "file kafka expects a login", make: func(s *stage) { s.worker["bootstrap.servers"] = s.kafka.SASLBootstrap() }, repair: plain,
			words: []string{"afka at ", "security.protocol"}},
		{name: "file kafka password", make: login(env.AdminUser, secret), repair: login(env.AdminUser, env.AdminUser),
			words: []string{"refused the login; check user, password and mechanism (sasl.jaas.config, sasl.mechanism)"}},
		{name: "file kafka rights", make: login(env.NoRightsUser, env.NoRightsUser), repair: login(env.AdminUser, env.AdminUser),
			words: []string{"-offsets", "grant ", " on "}},
		{name: "offsets topic that forgets", exit: 5, make: func(s *stage) {
			s.createTopic(s.name+"-offsets", map[string]string{"cleanup.policy": "delete"})
		}, words: []string{"offsets topic bad_", "has cleanup.policy=delete, which would delete offsets; set it to compact"},
			repair: func(s *stage) { s.setTopic(s.name+"-offsets", "cleanup.policy", "compact") }},
		{name: "topic missing", make: setWorker("topic.creation.enable", "false"),
			words:    []string{"topic bad_", ".public.t does not exist and topic creation is off; create it, or set topic.creation.enable=true in the worker file"},
			validate: []string{".public.t does not exist and topic creation is off"},
			repair:   func(s *stage) { s.createTopic(s.topic("t"), nil) }},
		{name: "replication factor", make: set("topic.creation.default.replication.factor", "3"), words: []string{"cannot be created with replication factor 3; set topic.creation.", "to at most the number of brokers"},
			repair: func(s *stage) {
				s.createTopic(s.name+".__generations", map[string]string{"cleanup.policy": "compact"})
				s.createTopic(s.topic("t"), nil)
			}},
		{name: "compacted topic of a keyless table", fresh: true, late: true, exit: 5, make: func(s *stage) {
			s.sql("CREATE TABLE public.k (v text)", "ALTER TABLE public.k REPLICA IDENTITY FULL")
			s.createTopic(s.topic("k"), map[string]string{"cleanup.policy": "compact"})
		}, words: []string{"table public.k has no key, and its topic ", ".public.k is compacted", "set cleanup.policy=delete"},
			repair: func(s *stage) { s.setTopic(s.topic("k"), "cleanup.policy", "delete") }},
		{name: "file registry url", make: func(s *stage) { s.worker["schema.registry.url"] = "http://" + s.registry.Addr() + "/nothing/here" },
			words:  []string{"schema registry", "/nothing/here", "check the URL and its path prefix"},
			repair: func(s *stage) { s.worker["schema.registry.url"] = s.registry.URL() }},
		{name: "file registry away", make: setWorker("schema.registry.url", "http://u:"+secret+"@127.0.0.1:1"),
			words:  []string{"schema registry http://127.0.0.1:1 cannot be reached", "check schema.registry.url and that the registry runs"},
			repair: func(s *stage) { s.worker["schema.registry.url"] = s.registry.URL() }},
		{name: "incompatible schema", exit: 3, make: func(s *stage) {
			s.register(s.topic("t")+"-value", `{"type":"record","name":"Value","namespace":"x","fields":[{"name":"id","type":"string"}]}`)
		}, words: []string{"schema registry refuses the new schema of subject ", ".public.t-value", "compatibility level BACKWARD", "ways out"}, unchecked: true,
			repair: func(s *stage) { s.call(http.MethodPut, "/config/"+s.topic("t")+"-value", `{"compatibility":"NONE"}`) }},
	}
}

// register puts a schema into a subject.
func (s *stage) register(subject, schema string) {
	s.Helper()
	body, err := json.Marshal(map[string]string{"schema": schema})
	s.must(err)
	s.call(http.MethodPost, "/subjects/"+subject+"/versions", string(body))
}

func (s *stage) call(method, path, body string) {
	s.Helper()
	req, err := http.NewRequestWithContext(s.Context(), method, s.registry.URL()+path, bytes.NewBufferString(body))
	s.must(err)
	req.Header.Set("Content-Type", "application/vnd.schemaregistry.v1+json")
	resp, err := http.DefaultClient.Do(req)
	s.must(err)
	defer func() { _ = resp.Body.Close() }()
	if b, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		s.Fatalf("%s %s: %d %s", method, path, resp.StatusCode, b)
	}
}

// A record over the limits blocks with the limits' names; what came before is published, nothing after, the same on
// every start; with limits raised it goes on at the same position.
func recordOverTheLimit(t *testing.T, pg *env.Postgres) {
	s := newStage(t, pg)
	s.prepare()
	s.sql("INSERT INTO public.t VALUES (1, 'good')",
		"INSERT INTO public.t SELECT 2, string_agg(md5(i::text), '') FROM generate_series(1, 50000) i",
		"INSERT INTO public.t VALUES (3, 'after')")
	var sentence string
	for range 2 {
		sentence = s.run().exit(3)
		s.wants(sentence, "table public.t", s.topic("t"), " bytes", "raise ", "max.request.size", "max.message.bytes", "exclude the large column")
		s.published("t", 1)
	}
	lsn := s.confirmed()
	s.connector["max.request.size"] = "4194304"
	s.wants(s.run().exit(3), "max.message.bytes")
	if s.confirmed() != lsn {
		t.Error("the slot moved while blocked")
	}
	s.setTopic(s.topic("t"), "max.message.bytes", "4194304")
	p := s.run()
	rows := s.published("t", 1, 2, 3)
	p.stop()
	if !strings.Contains(sentence, rows[1].Pos.LSN) {
		t.Errorf("the blocked position is not %s of the record published after the repair: %s", rows[1].Pos.LSN, sentence)
	}
}

// While the registry is away, rows of known schemas flow, a row of a new one waits, and goes on when it is back.
func registryAway(t *testing.T, pg *env.Postgres) {
	s := newStage(t, pg)
	px, err := proxy.New("127.0.0.1:0", s.registry.Addr())
	s.must(err)
	t.Cleanup(px.Close)
	s.worker["schema.registry.url"] = s.registry.URLAt(px.Addr())
	p := s.run()
	at := p.line(0, "state=RUNNING")
	s.sql("INSERT INTO public.t VALUES (1, 'registered')")
	s.published("t", 1)
	px.Cut()
	s.sql("INSERT INTO public.t VALUES (2, 'known')")
	s.published("t", 1, 2)
	s.sql("ALTER TABLE public.t ADD COLUMN w int", "INSERT INTO public.t VALUES (3, 'new', 3)", "INSERT INTO public.t VALUES (4, 'behind', 4)")
	p.line(at, "state=WAITING", "schema registry http://"+px.Addr(), "cannot be reached")
	lsn := s.confirmed()
	if n := len(s.rows("t")); n != 2 {
		t.Errorf("%d records while the registry is away", n)
	}
	if s.confirmed() != lsn {
		t.Error("the slot moved while waiting")
	}
	s.must(px.Restore())
	rows := s.published("t", 1, 2, 3, 4)
	if rows[2].Value["w"] != float64(3) {
		t.Errorf("%v", rows[2])
	}
	p.stop()
}
