package connectors

// Fact is one line of a description: what, and what it is now.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}
