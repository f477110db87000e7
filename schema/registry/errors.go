package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/sr"
)

type kind int

const (
	kindOther kind = iota
	kindUnavailable
	kindUnauthorized
	kindNotFound
	kindInvalid
	kindIncompatible // becomes an *IncompatibleError before a caller sees it
)

// Error is an answer of the registry, or the lack of one, as one sentence. The
// IsX functions tell its class.
type Error struct {
	// Endpoint is the registry's URL without user information.
	Endpoint string
	// Status and Code are HTTP's and the registry's own (42201); 0 without answer.
	Status, Code int
	// Message is what the registry said, on one line, cut to a few hundred bytes.
	Message string

	kind     kind
	sentence string
	cause    error
}

func (e *Error) Error() string { return e.sentence }

func (e *Error) Unwrap() error { return e.cause }

// IncompatibleError says that the registry refuses a schema because of the
// versions its subject already has. The same schema fails again until the
// level, the subject or the table changes.
type IncompatibleError struct {
	Subject string
	// Level is the compatibility level in force; empty where it could not be read.
	Level string
	// Messages are the registry's reasons, unshortened.
	Messages []string
	// SchemaText is the refused schema. Error does not print it.
	SchemaText string
}

func (e *IncompatibleError) Error() string {
	level := "its compatibility level"
	if e.Level != "" {
		level = "compatibility level " + e.Level
	}
	reasons := make([]string, 0, len(e.Messages))
	for _, m := range e.Messages {
		// Confluent adds the whole old schema and the configuration as reasons.
		if strings.HasPrefix(m, "{oldSchema:") || strings.HasPrefix(m, "{validateFields:") || strings.HasPrefix(m, "{compatibility:") {
			continue
		}
		reasons = append(reasons, oneLine(m, 300))
	}
	why := "it gave no reason"
	if len(reasons) > 0 {
		why = oneLine(strings.Join(reasons, "; "), 900)
	}
	return fmt.Sprintf("schema registry refuses the new schema of subject %q at %s: %s; ways out: undo or adapt the change in the table, set the subject to another level (PUT /config/%s, for example NONE) and retry, or publish the table to a new topic",
		e.Subject, level, why, url.PathEscape(e.Subject))
}

// IsUnavailable reports that the registry could not answer (refused connection,
// timeout, TLS failure, HTTP 5xx, 408, 429): wait and ask again.
func IsUnavailable(err error) bool { return isKind(err, kindUnavailable) }

// IsUnauthorized reports HTTP 401 or 403. Rights may be granted while we wait.
func IsUnauthorized(err error) bool { return isKind(err, kindUnauthorized) }

// IsNotFound reports that the registry has no such schema, subject or id. For
// Resolve without AutoRegister: somebody has to register the schema.
func IsNotFound(err error) bool { return isKind(err, kindNotFound) }

// IsInvalid reports that the registry cannot accept the text as a schema at all.
func IsInvalid(err error) bool { return isKind(err, kindInvalid) }

// IsIncompatible reports an *IncompatibleError.
func IsIncompatible(err error) bool {
	var inc *IncompatibleError
	return errors.As(err, &inc)
}

// Blocks reports that the same schema would be refused again (invalid or
// incompatible). On every other error a caller waits with backoff and retries.
func Blocks(err error) bool { return IsInvalid(err) || IsIncompatible(err) }

func isKind(err error, k kind) bool {
	var e *Error
	return errors.As(err, &e) && e.kind == k
}

// oneLine makes text of a foreign server fit for a sentence.
func oneLine(s string, limit int) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "?")), " ")
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + "…"
	}
	return s
}

// errForeign is the answer of something else than a schema registry.
var errForeign = errors.New("the answer is not a schema registry's")

// foreign is the error for an answer that reads well and lacks what a registry's has: a gateway answered, say, and an id
// taken from it would spoil every record.
func (c *Client) foreign(what string) error {
	return classify(errForeign, c.endpoints[c.preferred.Load()], what, c.timeout)
}

// classify turns an error of one request into a sentence with a class. what
// names the request ("register schema of subject …").
func classify(err error, at endpoint, what string, timeout time.Duration) *Error {
	var re *sr.ResponseError
	if errors.As(err, &re) {
		return classifyAnswer(re, at, what)
	}
	out := &Error{Endpoint: at.shown, kind: kindUnavailable, cause: err}
	var syntax *json.SyntaxError
	var mistyped *json.UnmarshalTypeError
	var ue *url.Error
	switch {
	case errors.As(err, &syntax), errors.As(err, &mistyped), errors.Is(err, errForeign):
		out.kind = kindOther
		out.sentence = fmt.Sprintf("%s: %s does not answer like a schema registry: check the URL and its path prefix (Apicurio: /apis/ccompat/v7)", what, at.shown)
	case errors.Is(err, context.DeadlineExceeded):
		out.sentence = fmt.Sprintf("%s: schema registry %s gave no answer within %s; check schema.registry.url and the registry", what, at.shown, timeout)
	case errors.As(err, &ue):
		out.sentence = fmt.Sprintf("%s: schema registry %s cannot be reached: %v; check schema.registry.url and that the registry runs", what, at.shown, ue.Err)
	default:
		out.sentence = fmt.Sprintf("%s: schema registry %s cannot be reached: %v; check schema.registry.url and that the registry runs", what, at.shown, err)
	}
	return out
}

func classifyAnswer(re *sr.ResponseError, at endpoint, what string) *Error {
	out := &Error{
		Endpoint: at.shown, Status: re.StatusCode, Code: re.ErrorCode,
		Message: oneLine(re.Error(), 400), cause: re,
	}
	said := fmt.Sprintf("%s: schema registry %s answered %d", what, at.shown, re.StatusCode)
	if out.Message != "" {
		said += " (" + out.Message + ")"
	}
	switch s := re.StatusCode; {
	case s == http.StatusUnauthorized:
		out.kind, out.sentence = kindUnauthorized, fmt.Sprintf("%s: schema registry %s does not accept the credentials (401): check user and password, or the token", what, at.shown)
	case s == http.StatusForbidden:
		out.kind, out.sentence = kindUnauthorized, fmt.Sprintf("%s: schema registry %s refuses this user (403): grant it the right, or let somebody else register the schema", what, at.shown)
	case s == http.StatusTooManyRequests, s == http.StatusRequestTimeout, s >= 500:
		out.kind, out.sentence = kindUnavailable, said+": it is retried"
	case s == http.StatusConflict:
		out.kind, out.sentence = kindIncompatible, said
	case s == http.StatusNotFound && out.Code == 0:
		out.sentence = fmt.Sprintf("%s: %s has no schema registry API (404): check the URL and its path prefix (Apicurio: /apis/ccompat/v7)", what, at.shown)
	case s == http.StatusNotFound:
		out.kind, out.sentence = kindNotFound, said
	case out.Code == sr.ErrOperationNotPermitted.Code:
		out.kind, out.sentence = kindUnauthorized, said+": the subject is read-only in the registry; set its mode to READWRITE, or let somebody else register the schema"
	case s == http.StatusUnprocessableEntity:
		out.kind, out.sentence = kindInvalid, said+": the registry cannot take this schema"
	default:
		out.sentence = said
	}
	return out
}
