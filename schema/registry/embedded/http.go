package embedded

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/twmb/avro"
)

// maxBody bounds a request; schemas of thousands of columns stay far below.
const maxBody = 8 << 20

const contentType = "application/vnd.schemaregistry.v1+json"

// apiError is an answer in Confluent's form. Codes:
// https://docs.confluent.io/platform/current/schema-registry/develop/api.html
type apiError struct {
	status, code int
	message      string
}

func (e *apiError) Error() string { return e.message }

func refuse(status, code int, format string, args ...any) error {
	return &apiError{status: status, code: code, message: fmt.Sprintf(format, args...)}
}

func noSubject(name string) error   { return refuse(404, 40401, "Subject '%s' not found.", name) }
func noVersion(number string) error { return refuse(404, 40402, "Version %s not found.", number) }
func noSchema() error               { return refuse(404, 40403, "Schema not found") }
func storeError(err error) error {
	return refuse(500, 50001, "Error in the backend data store: %v", err)
}

// endpointFunc answers one request with a value that becomes JSON.
type endpointFunc func(req *http.Request) (any, error)

func (r *Registry) routes() http.Handler {
	mux := http.NewServeMux()
	for pattern, fn := range map[string]endpointFunc{
		"GET /{$}":           func(*http.Request) (any, error) { return struct{}{}, nil },
		"GET /schemas/types": func(*http.Request) (any, error) { return []string{"AVRO"}, nil },

		"GET /schemas/ids/{id}":          r.schemaByID,
		"GET /schemas/ids/{id}/schema":   r.schemaTextByID,
		"GET /schemas/ids/{id}/versions": r.versionsByID,
		"GET /schemas/ids/{id}/subjects": r.subjectsByID,

		"GET /subjects":                                     r.listSubjects,
		"POST /subjects/{subject}":                          r.lookup,
		"DELETE /subjects/{subject}":                        r.deleteSubject,
		"GET /subjects/{subject}/versions":                  r.listVersions,
		"POST /subjects/{subject}/versions":                 r.register,
		"GET /subjects/{subject}/versions/{version}":        r.getVersion,
		"GET /subjects/{subject}/versions/{version}/schema": r.getVersionText,
		"DELETE /subjects/{subject}/versions/{version}":     r.deleteVersion,

		"POST /compatibility/subjects/{subject}/versions":           r.checkCompatibility,
		"POST /compatibility/subjects/{subject}/versions/{version}": r.checkCompatibility,

		"GET /config":              r.getLevel,
		"PUT /config":              r.putLevel,
		"GET /config/{subject}":    r.getLevel,
		"PUT /config/{subject}":    r.putLevel,
		"DELETE /config/{subject}": r.deleteLevel,
		"GET /mode":                r.getMode,
		"PUT /mode":                r.putMode,
		"GET /mode/{subject}":      r.getMode,
		"PUT /mode/{subject}":      r.putMode,
		"DELETE /mode/{subject}":   r.deleteMode,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, req *http.Request) {
			req.Body = http.MaxBytesReader(w, req.Body, maxBody)
			answer(w, req, fn)
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, req *http.Request) {
		answer(w, req, func(*http.Request) (any, error) {
			return nil, refuse(404, 404, "The embedded schema registry has no %s %s.", req.Method, req.URL.Path)
		})
	})
	return mux
}

func answer(w http.ResponseWriter, req *http.Request, fn endpointFunc) {
	status := http.StatusOK
	v, err := fn(req)
	if err != nil {
		var e *apiError
		if !errors.As(err, &e) {
			e = &apiError{status: 500, code: 500, message: err.Error()}
		}
		status = e.status
		v = map[string]any{"error_code": e.code, "message": e.message}
	}
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // the client went away
}

// schemaRequest is the body of register, lookup and compatibility.
type schemaRequest struct {
	Schema     string            `json:"schema"`
	SchemaType string            `json:"schemaType"`
	References []json.RawMessage `json:"references"`
}

// readSchema parses the body and the schema within it.
func readSchema(req *http.Request) (string, *avro.Schema, error) {
	var body schemaRequest
	if err := readJSON(req, &body); err != nil {
		return "", nil, err
	}
	if body.SchemaType != "" && body.SchemaType != "AVRO" {
		return "", nil, refuse(422, 42201, "Schema type %s is not supported by the embedded schema registry; only AVRO is.", body.SchemaType)
	}
	if len(body.References) > 0 {
		return "", nil, refuse(422, 42201, "Schema references are not supported by the embedded schema registry.")
	}
	parsed, err := parse(body.Schema)
	if err != nil {
		return "", nil, refuse(422, 42201, "Invalid schema: %v", err)
	}
	return body.Schema, parsed, nil
}

func readJSON(req *http.Request, into any) error {
	if err := json.NewDecoder(req.Body).Decode(into); err != nil {
		var big *http.MaxBytesError
		if errors.As(err, &big) {
			return refuse(422, 42209, "The request is larger than %d bytes.", maxBody)
		}
		return refuse(400, 400, "The request is not the JSON that was expected: %v", err)
	}
	return nil
}

func flag(req *http.Request, name string) bool { return req.URL.Query().Get(name) == "true" }
