package env

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Python makes the command that runs a script with confluent-kafka, fastavro and DuckDB; what is missing is fetched first.
// It is killed where it outlives the test.
func (e *Env) Python(t testing.TB, script string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := e.script(t.Context(), "setup-python.sh", nil, "path")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "python3", append([]string{script}, args...)...)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+path, "PYTHONDONTWRITEBYTECODE=1", "PYTHONIOENCODING=utf-8", "TZ=UTC")
	return cmd
}

// Java are classes compiled against Kafka's clients, Kafka Streams, Avro and Apicurio's deserializers.
type Java struct {
	env     *Env
	classes string
}

// Java compiles the sources of a folder for one test; what is missing is fetched first. A warning is an error.
func (e *Env) Java(t testing.TB, folder string) *Java {
	t.Helper()
	sources, err := filepath.Glob(filepath.Join(folder, "*.java"))
	if err != nil || len(sources) == 0 {
		t.Fatalf("no Java sources in %s: %v", folder, err)
	}
	for i, s := range sources {
		if sources[i], err = filepath.Abs(s); err != nil {
			t.Fatal(err)
		}
	}
	j := &Java{env: e, classes: t.TempDir()}
	if _, err := e.script(t.Context(), "setup-java.sh", nil, append([]string{"compile", j.classes}, sources...)...); err != nil {
		t.Fatal(err)
	}
	return j
}

// Command makes the command that runs a class; it is killed where it outlives ctx.
func (j *Java) Command(ctx context.Context, class string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "bash", append([]string{filepath.Join(j.env.dir, "scripts", "setup-java.sh"), "run", j.classes, class}, args...)...)
}
