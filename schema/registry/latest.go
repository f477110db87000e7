package registry

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/twmb/franz-go/pkg/sr"
)

// Latest gives the text of a subject's newest version. IsNotFound tells that the registry has no such subject.
func (c *Client) Latest(ctx context.Context, subject string) (string, error) {
	var s sr.SubjectSchema
	what := fmt.Sprintf("read the latest schema of subject %q", subject)
	if err := c.do(ctx, what, http.MethodGet, "/subjects/"+url.PathEscape(subject)+"/versions/latest", nil, &s); err != nil {
		return "", err
	}
	return s.Schema.Schema, nil
}
