package embedded

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// subjectVersion is a version as the API shows it.
type subjectVersion struct {
	Subject string `json:"subject"`
	Version int    `json:"version"`
	ID      int    `json:"id"`
	Schema  string `json:"schema"`
}

func (r *Registry) shown(name string, v version) subjectVersion {
	return subjectVersion{Subject: name, Version: v.number, ID: v.id, Schema: r.state.byID[v.id].text}
}

// visible gives the versions of a subject that a request may see, or the 404.
func (r *Registry) visible(req *http.Request) (string, []version, error) {
	name := req.PathValue("subject")
	sub := r.state.subjects[name]
	vs := sub.live()
	if sub != nil && flag(req, "deleted") {
		vs = sub.versions
	}
	if len(vs) == 0 {
		return name, nil, noSubject(name)
	}
	return name, vs, nil
}

func (r *Registry) listSubjects(req *http.Request) (any, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	q := req.URL.Query()
	out := []string{}
	for _, name := range slices.Sorted(maps.Keys(r.state.subjects)) {
		sub := r.state.subjects[name]
		seen := len(sub.live()) > 0 || (flag(req, "deleted") && len(sub.versions) > 0)
		if seen && strings.HasPrefix(name, q.Get("subjectPrefix")) {
			out = append(out, name)
		}
	}
	if offset, err := strconv.Atoi(q.Get("offset")); err == nil && offset > 0 {
		out = out[min(offset, len(out)):]
	}
	if limit, err := strconv.Atoi(q.Get("limit")); err == nil && limit >= 0 {
		out = out[:min(limit, len(out))]
	}
	return out, nil
}

func (r *Registry) listVersions(req *http.Request) (any, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	_, vs, err := r.visible(req)
	if err != nil {
		return nil, err
	}
	return numbers(vs), nil
}

func numbers(vs []version) []int {
	out := make([]int, len(vs))
	for i, v := range vs {
		out[i] = v.number
	}
	return out
}

func (r *Registry) getVersion(req *http.Request) (any, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	name, vs, err := r.visible(req)
	if err != nil {
		return nil, err
	}
	v, err := pick(vs, req.PathValue("version"))
	if err != nil {
		return nil, err
	}
	return r.shown(name, v), nil
}

func (r *Registry) getVersionText(req *http.Request) (any, error) {
	v, err := r.getVersion(req)
	if err != nil {
		return nil, err
	}
	return rawJSON(v.(subjectVersion).Schema), nil
}

// pick finds a version by its number; "latest" and -1 are the newest.
func pick(vs []version, number string) (version, error) {
	if number == "latest" || number == "-1" {
		return vs[len(vs)-1], nil
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 {
		return version{}, refuse(422, 42202, "The specified version '%s' is not a valid version id. Allowed values are between [1, 2^31-1] and the string \"latest\"", number)
	}
	i := slices.IndexFunc(vs, func(v version) bool { return v.number == n })
	if i < 0 {
		return version{}, noVersion(number)
	}
	return vs[i], nil
}

func (r *Registry) lookup(req *http.Request) (any, error) {
	text, _, err := readSchema(req)
	if err != nil {
		return nil, err
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	name, vs, err := r.visible(req)
	if err != nil {
		return nil, err
	}
	if v, ok := r.find(vs, text); ok {
		return r.shown(name, v), nil
	}
	return nil, noSchema()
}

// find gives the newest of vs that holds text.
func (r *Registry) find(vs []version, text string) (version, bool) {
	st := r.state.byKey[identity(text)]
	if st == nil {
		return version{}, false
	}
	for _, v := range slices.Backward(vs) {
		if v.id == st.id {
			return v, true
		}
	}
	return version{}, false
}

func (r *Registry) register(req *http.Request) (any, error) {
	text, parsed, err := readSchema(req)
	if err != nil {
		return nil, err
	}
	name := req.PathValue("subject")
	r.mu.Lock()
	defer r.mu.Unlock()
	sub := r.state.subjects[name]
	live := sub.live()
	if v, ok := r.find(live, text); ok {
		return map[string]int{"id": v.id}, nil
	}
	if r.state.modeOf(name) != "READWRITE" {
		return nil, refuse(422, 42205, "Subject %s is in read-only mode", name)
	}
	levelName := r.state.levelOf(name)
	l, _ := levelByName(levelName)
	if reasons := r.state.compare(l, parsed, live); len(reasons) > 0 {
		return nil, refuse(409, 409, "Schema being registered is incompatible with an earlier schema for subject \"%s\", details: [%s], compatibility: '%s'",
			name, strings.Join(reasons, "; "), levelName)
	}
	e := event{Op: opRegister, Subject: name, Version: 1}
	if sub != nil && len(sub.versions) > 0 {
		e.Version = sub.versions[len(sub.versions)-1].number + 1
	}
	if st := r.state.byKey[identity(text)]; st != nil {
		e.ID = st.id
	} else {
		e.ID, e.Schema = r.state.nextID, text
	}
	if err := r.commit(e); err != nil {
		return nil, err
	}
	return map[string]int{"id": e.ID}, nil
}

func (r *Registry) deleteSubject(req *http.Request) (any, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := req.PathValue("subject")
	sub := r.state.subjects[name]
	if sub == nil || len(sub.versions) == 0 {
		return nil, noSubject(name)
	}
	live := sub.live()
	permanent := flag(req, "permanent")
	gone := live
	switch {
	case permanent && len(live) > 0:
		return nil, refuse(404, 40405, "Subject '%s' was not deleted first before being permanently deleted", name)
	case permanent:
		gone = sub.versions
	case len(live) == 0:
		return nil, refuse(404, 40404, "Subject '%s' was soft deleted.Set permanent=true to delete permanently", name)
	}
	out := numbers(gone)
	return out, r.commit(event{Op: opDelete, Subject: name, Versions: out, Permanent: permanent})
}

func (r *Registry) deleteVersion(req *http.Request) (any, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name, number := req.PathValue("subject"), req.PathValue("version")
	sub := r.state.subjects[name]
	if sub == nil || len(sub.versions) == 0 {
		return nil, noSubject(name)
	}
	candidates := sub.versions
	if number == "latest" || number == "-1" {
		if candidates = sub.live(); len(candidates) == 0 {
			return nil, noSubject(name)
		}
	}
	v, err := pick(candidates, number)
	if err != nil {
		return nil, err
	}
	permanent := flag(req, "permanent")
	if permanent && !v.deleted {
		return nil, refuse(404, 40407, "Subject '%s' Version %d was not deleted first before being permanently deleted", name, v.number)
	}
	if !permanent && v.deleted {
		return nil, refuse(404, 40406, "Subject '%s' Version %d was soft deleted.Set permanent=true to delete permanently", name, v.number)
	}
	return v.number, r.commit(event{Op: opDelete, Subject: name, Versions: []int{v.number}, Permanent: permanent})
}
