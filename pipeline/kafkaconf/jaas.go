package kafkaconf

import (
	"errors"
	"fmt"
	"strings"
)

type login struct {
	module   string
	user     string
	password string
}

// errJAAS never shows the value: it holds the password.
var errJAAS = errors.New(`is not a login; write it as org.apache.kafka.common.security.plain.PlainLoginModule required username="…" password="…";`)

// parseJAAS reads one JAAS login entry: a class, a control flag, and options as name=value, the
// value quoted with " (with \ as escape) or bare, closed by a semicolon.
func parseJAAS(v string) (login, error) {
	rest := strings.TrimSpace(v)
	module, rest, ok := strings.Cut(rest, " ")
	if !ok {
		return login{}, errJAAS
	}
	switch name := module[strings.LastIndexByte(module, '.')+1:]; name {
	case "PlainLoginModule", "ScramLoginModule":
	default:
		return login{}, fmt.Errorf("%s is not supported; use PlainLoginModule or ScramLoginModule", name)
	}
	flag, rest, ok := strings.Cut(strings.TrimSpace(rest), " ")
	if !ok || !strings.EqualFold(flag, "required") && !strings.EqualFold(flag, "requisite") && !strings.EqualFold(flag, "sufficient") {
		return login{}, errJAAS
	}
	l := login{module: module}
	options := map[string]*string{"username": &l.user, "password": &l.password}
	for {
		rest = strings.TrimSpace(rest)
		if rest == ";" {
			break
		}
		name, after, ok := strings.Cut(rest, "=")
		if !ok {
			return login{}, errJAAS
		}
		var value string
		if value, rest, ok = jaasValue(strings.TrimSpace(after)); !ok {
			return login{}, errJAAS
		}
		if p := options[strings.TrimSpace(name)]; p != nil {
			*p = value
		}
	}
	if l.user == "" {
		return login{}, errors.New("names no username")
	}
	if l.password == "" {
		return login{}, errors.New("names no password")
	}
	return l, nil
}

func jaasValue(s string) (value, rest string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		end := strings.IndexAny(s, " ;\t\n")
		if end <= 0 {
			return "", "", false
		}
		return s[:end], s[end:], true
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			if i++; i == len(s) {
				return "", "", false
			}
			b.WriteByte(s[i])
		case '"':
			return b.String(), s[i+1:], true
		default:
			b.WriteByte(s[i])
		}
	}
	return "", "", false
}
