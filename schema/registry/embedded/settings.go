package embedded

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

type rawJSON string

func (s rawJSON) MarshalJSON() ([]byte, error) {
	if json.Valid([]byte(s)) {
		return []byte(s), nil
	}
	return json.Marshal(string(s))
}

// byID finds the schema of the path's id. The caller holds r.mu.
func (r *Registry) byID(req *http.Request) (*stored, error) {
	id, err := strconv.Atoi(req.PathValue("id"))
	if err != nil {
		return nil, refuse(404, 404, "'%s' is not a schema id", req.PathValue("id"))
	}
	st := r.state.byID[id]
	if st == nil {
		return nil, refuse(404, 40403, "Schema %d not found", id)
	}
	return st, nil
}

func (r *Registry) schemaByID(req *http.Request) (any, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	st, err := r.byID(req)
	if err != nil {
		return nil, err
	}
	return map[string]string{"schema": st.text}, nil
}

func (r *Registry) schemaTextByID(req *http.Request) (any, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	st, err := r.byID(req)
	if err != nil {
		return nil, err
	}
	return rawJSON(st.text), nil
}

// use is one place where a schema is registered.
type use struct {
	Subject string `json:"subject"`
	Version int    `json:"version"`
}

func (r *Registry) versionsByID(req *http.Request) (any, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	st, err := r.byID(req)
	if err != nil {
		return nil, err
	}
	out := []use{}
	for _, name := range slices.Sorted(maps.Keys(r.state.subjects)) {
		for _, v := range r.state.subjects[name].versions {
			if v.id == st.id && (!v.deleted || flag(req, "deleted")) {
				out = append(out, use{name, v.number})
			}
		}
	}
	return out, nil
}

func (r *Registry) subjectsByID(req *http.Request) (any, error) {
	v, err := r.versionsByID(req)
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, u := range v.([]use) {
		names = append(names, u.Subject)
	}
	return slices.Compact(names), nil
}

// checkCompatibility compares with one version, or with those the level names.
func (r *Registry) checkCompatibility(req *http.Request) (any, error) {
	_, parsed, err := readSchema(req)
	if err != nil {
		return nil, err
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	name := req.PathValue("subject")
	old := r.state.subjects[name].live()
	if number := req.PathValue("version"); number != "" {
		if len(old) == 0 {
			return nil, noSubject(name)
		}
		v, err := pick(old, number)
		if err != nil {
			return nil, err
		}
		old = []version{v}
	}
	l, _ := levelByName(r.state.levelOf(name))
	reasons := r.state.compare(l, parsed, old)
	out := map[string]any{"is_compatible": len(reasons) == 0}
	if flag(req, "verbose") {
		out["messages"] = append([]string{}, reasons...)
	}
	return out, nil
}

func (r *Registry) getLevel(req *http.Request) (any, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	v := r.state.level
	if name := req.PathValue("subject"); name != "" {
		if sub := r.state.subjects[name]; sub != nil && sub.level != "" {
			v = sub.level
		} else if !flag(req, "defaultToGlobal") {
			return nil, refuse(404, 40408, "Subject '%s' does not have subject-level compatibility configured", name)
		}
	}
	return map[string]string{"compatibilityLevel": v}, nil
}

func (r *Registry) putLevel(req *http.Request) (any, error) {
	var body struct {
		Compatibility string `json:"compatibility"`
	}
	if err := readJSON(req, &body); err != nil {
		return nil, err
	}
	v := strings.ToUpper(body.Compatibility)
	if !validLevel(v) {
		return nil, refuse(422, 42203, "Invalid compatibility level. Valid values are %s", levelNames())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return map[string]string{"compatibility": v}, r.commit(event{Op: opLevel, Subject: req.PathValue("subject"), Value: v})
}

func (r *Registry) deleteLevel(req *http.Request) (any, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := req.PathValue("subject")
	sub := r.state.subjects[name]
	if sub == nil || sub.level == "" {
		return nil, refuse(404, 40408, "Subject '%s' does not have subject-level compatibility configured", name)
	}
	return map[string]string{"compatibility": sub.level}, r.commit(event{Op: opLevel, Subject: name})
}

func (r *Registry) getMode(req *http.Request) (any, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	v := r.state.mode
	if name := req.PathValue("subject"); name != "" {
		if sub := r.state.subjects[name]; sub != nil && sub.mode != "" {
			v = sub.mode
		} else if !flag(req, "defaultToGlobal") {
			return nil, refuse(404, 40409, "Subject '%s' does not have subject-level mode configured", name)
		}
	}
	return map[string]string{"mode": v}, nil
}

func (r *Registry) putMode(req *http.Request) (any, error) {
	var body struct {
		Mode string `json:"mode"`
	}
	if err := readJSON(req, &body); err != nil {
		return nil, err
	}
	v := strings.ToUpper(body.Mode)
	if v != "READWRITE" && v != "READONLY" {
		return nil, refuse(422, 42204, "Invalid mode. The embedded schema registry knows READWRITE and READONLY")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return map[string]string{"mode": v}, r.commit(event{Op: opMode, Subject: req.PathValue("subject"), Value: v})
}

func (r *Registry) deleteMode(req *http.Request) (any, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := req.PathValue("subject")
	sub := r.state.subjects[name]
	if sub == nil || sub.mode == "" {
		return nil, refuse(404, 40409, "Subject '%s' does not have subject-level mode configured", name)
	}
	return map[string]string{"mode": sub.mode}, r.commit(event{Op: opMode, Subject: name})
}
