//go:build linux || darwin

package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidemark-cdc/tidemark/cmd/connectctl/internal/demo/shop"
)

// leftovers is what a run made on servers that are not its own. It is written down before it is made, so
// that the reaper or the next run can take it away: a forgotten slot would hold the database's log for ever.
// The file holds the connection's password and is readable by its owner only.
type leftovers struct {
	PostgresURL string   `json:"postgres_url,omitempty"`
	Schema      string   `json:"schema,omitempty"`
	Publication string   `json:"publication,omitempty"`
	Slots       []string `json:"slots,omitempty"`
	Bootstrap   []string `json:"bootstrap,omitempty"`
	Prefix      string   `json:"prefix,omitempty"`
	Offsets     string   `json:"offsets,omitempty"`
	RegistryURL string   `json:"registry_url,omitempty"`
}

const leftoversName = "made-elsewhere.json"

func (l *leftovers) empty() bool {
	return l.PostgresURL == "" && len(l.Bootstrap) == 0 && l.RegistryURL == ""
}

func (l *leftovers) write(run string) error {
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(run, leftoversName), b, 0o600); err != nil {
		return fmt.Errorf("write down what will be made on other servers: %w", err)
	}
	return nil
}

// removeLeftovers takes away what a dead run made on servers that are not its own, and names it.
func removeLeftovers(run string) (names string, err error) {
	b, err := os.ReadFile(filepath.Join(run, leftoversName))
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	var l leftovers
	if err == nil {
		err = json.Unmarshal(b, &l)
	}
	if err != nil {
		return "unknown", fmt.Errorf("read what a killed run made on other servers: %w", err)
	}
	return l.names(), l.remove()
}

func (l *leftovers) names() string {
	var names []string
	if l.PostgresURL != "" {
		names = append(names, "slots "+strings.Join(l.Slots, " and "), "publication "+l.Publication, "schema "+l.Schema)
	}
	if l.Prefix != "" {
		names = append(names, "topics and subjects "+l.Prefix+"*")
	}
	return strings.Join(names, ", ")
}

// remove goes on after an error.
func (l *leftovers) remove() error {
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Second)
	defer cancel()
	var errs []error
	if l.PostgresURL != "" {
		cfg, _, err := parseDatabase(l.PostgresURL)
		if err == nil && len(l.Slots) == 2 {
			d := database{config: cfg, shop: shop.Shop{Schema: l.Schema}, publication: l.Publication, slot: l.Slots[0], judgeSlot: l.Slots[1]}
			err = d.remove(ctx)
		}
		errs = append(errs, err)
	}
	t := topics{seeds: l.Bootstrap, prefix: l.Prefix, offsets: l.Offsets, registry: l.RegistryURL}
	if len(l.Bootstrap) > 0 {
		errs = append(errs, t.remove(ctx))
	}
	if l.RegistryURL != "" {
		errs = append(errs, t.removeSubjects(ctx))
	}
	return errors.Join(errs...)
}
