package config

import (
	"fmt"
	"os"
	"regexp"
	"sort"
	"strings"

	"github.com/magiconair/properties"
)

var reference = regexp.MustCompile(`\$\{(env|file):([^}]*)\}`)

// Resolve replaces ${env:NAME} by the environment variable, ${file:path} by the file's content
// without its last line end, and ${file:path:key} by a member of a properties file, as Kafka's
// EnvVarConfigProvider and FileConfigProvider do. It returns every reference that cannot be resolved
// in one error, and never a resolved value in it.
func Resolve(raw map[string]string) (map[string]string, error) {
	out := make(map[string]string, len(raw))
	var problems []string
	for name, value := range raw {
		out[name] = reference.ReplaceAllStringFunc(value, func(ref string) string {
			m := reference.FindStringSubmatch(ref)
			v, err := lookup(m[1], m[2])
			if err != nil {
				problems = append(problems, fmt.Sprintf("%s: %s: %v", name, ref, err))
			}
			return v
		})
	}
	if len(problems) > 0 {
		sort.Strings(problems)
		return nil, fmt.Errorf("%s", strings.Join(problems, "; "))
	}
	return out, nil
}

func lookup(provider, arg string) (string, error) {
	if provider == "env" {
		v, ok := os.LookupEnv(arg)
		if !ok {
			return "", fmt.Errorf("the environment variable is not set")
		}
		return v, nil
	}
	if data, err := read(arg); err == nil {
		return strings.TrimRight(string(data), "\r\n"), nil
	} else if i := strings.LastIndexByte(arg, ':'); i < 0 {
		return "", fmt.Errorf("the file cannot be read: %s", cause(err))
	}
	i := strings.LastIndexByte(arg, ':')
	path, key := arg[:i], arg[i+1:]
	data, err := read(path)
	if err != nil {
		return "", fmt.Errorf("the file cannot be read: %s", cause(err))
	}
	loader := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	p, err := loader.LoadBytes(data)
	if err != nil {
		return "", fmt.Errorf("the file is not a properties file")
	}
	v, ok := p.Get(key)
	if !ok {
		return "", fmt.Errorf("the file has no property %s", key)
	}
	return v, nil
}
