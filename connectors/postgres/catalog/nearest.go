package catalog

import (
	"sort"
	"strings"
)

// nearest returns up to three tables whose names are close to text, best first. Text may be a
// pattern; its backslashes do not count.
func nearest(text string, refs []TableRef) []string {
	want := strings.ToLower(strings.ReplaceAll(text, `\`, ""))
	type candidate struct {
		name     string
		distance int
	}
	var found []candidate
	for _, r := range refs {
		name := r.QualifiedName()
		d := min(distance(want, strings.ToLower(name)), distance(want, strings.ToLower(r.Name)))
		if d <= max(2, len(want)/3) {
			found = append(found, candidate{name, d})
		}
	}
	sort.SliceStable(found, func(i, j int) bool { return found[i].distance < found[j].distance })
	var names []string
	for _, c := range found[:min(3, len(found))] {
		names = append(names, c.name)
	}
	return names
}

// distance is the Levenshtein distance in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			diagonal, row[j] = row[j], min(row[j]+1, row[j-1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}

// nearestNames finds up to three names that are written like text.
func nearestNames(text string, names []string) []string {
	want := strings.ToLower(strings.ReplaceAll(text, `\`, ""))
	found := map[int][]string{}
	limit := max(2, len(want)/5)
	for _, name := range names {
		if d := distance(want, strings.ToLower(name)); d <= limit {
			found[d] = append(found[d], name)
		}
	}
	var out []string
	for d := 0; d <= limit; d++ {
		out = append(out, found[d]...)
	}
	return out[:min(3, len(out))]
}
