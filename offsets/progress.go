package offsets

import (
	"fmt"
)

// The states of a table's snapshot.
const (
	SnapshotPending = "pending" // to be read, nothing of it is published
	SnapshotReading = "reading" // read up to After
	SnapshotDone    = "done"
	SnapshotFailed  = "failed"  // ended by an error of its own: Reason
	SnapshotStopped = "stopped" // ended by an operator
)

// Progress is how far a table's rows have been read, the newest snapshot's. It is part of the table's entry and commits in
// one Kafka transaction with the rows it counts.
type Progress struct {
	State  string // empty: none was ever begun
	ID     string // of the snapshot
	Kind   string // "initial", "incremental", …: why it is read
	After  string // where reading goes on, in the engine's own words
	Again  string // keys to be read once more, JSON array of strings; empty for none
	Where  string // condition of the rows
	Key    string // surrogate key, JSON array of names; empty for the table's key
	Rows   int64  // published
	Total  int64  // estimate of all rows when it began; -1: unknown
	Pos    string // __pos of the newest row published
	Seq    int64  // __seq of it
	Began  int64  // milliseconds since the Unix epoch
	Ended  int64  // likewise; 0 before
	Reason string // why it failed or was stopped, one sentence
}

// Open reports whether there is something left to read.
func (p *Progress) Open() bool { return p.State == SnapshotPending || p.State == SnapshotReading }

// Names of members of a table's value.
const (
	fieldSnapshot       = "snapshot"
	fieldSnapshotID     = "snapshot_id"
	fieldSnapshotKind   = "snapshot_kind"
	fieldSnapshotAfter  = "snapshot_after"
	fieldSnapshotAgain  = "snapshot_again"
	fieldSnapshotWhere  = "snapshot_where"
	fieldSnapshotKey    = "snapshot_key"
	fieldSnapshotRows   = "snapshot_rows"
	fieldSnapshotTotal  = "snapshot_total"
	fieldSnapshotPos    = "snapshot_pos"
	fieldSnapshotSeq    = "snapshot_seq"
	fieldSnapshotBegan  = "snapshot_began_ms"
	fieldSnapshotEnded  = "snapshot_ended_ms"
	fieldSnapshotReason = "snapshot_reason"
)

// append appends the members of a table's value that tell the progress; none where no snapshot was ever begun.
func (p *Progress) append(o Object) Object {
	if p.State == "" {
		return o
	}
	o = append(o, Field{fieldSnapshot, p.State})
	for _, f := range []struct{ name, value string }{
		{fieldSnapshotID, p.ID}, {fieldSnapshotKind, p.Kind}, {fieldSnapshotAfter, p.After}, {fieldSnapshotAgain, p.Again},
		{fieldSnapshotWhere, p.Where}, {fieldSnapshotKey, p.Key}, {fieldSnapshotPos, p.Pos}, {fieldSnapshotReason, p.Reason},
	} {
		if f.value != "" {
			o = append(o, Field{f.name, f.value})
		}
	}
	o = append(o, Field{fieldSnapshotRows, p.Rows}, Field{fieldSnapshotTotal, p.Total}, Field{fieldSnapshotSeq, p.Seq}, Field{fieldSnapshotBegan, p.Began})
	if p.Ended != 0 {
		o = append(o, Field{fieldSnapshotEnded, p.Ended})
	}
	return o
}

// progressFrom reads the members of a table's value that tell the progress.
func progressFrom(o Object) (p Progress, err error) {
	var ok bool
	if p.State, ok = o.Text(fieldSnapshot); !ok {
		return Progress{}, nil
	}
	switch p.State {
	case SnapshotPending, SnapshotReading, SnapshotDone, SnapshotFailed, SnapshotStopped:
	default:
		return Progress{}, fmt.Errorf("member %q is %q, which is no state of a snapshot", fieldSnapshot, p.State)
	}
	for _, f := range []struct {
		name string
		to   *string
	}{
		{fieldSnapshotID, &p.ID}, {fieldSnapshotKind, &p.Kind}, {fieldSnapshotAfter, &p.After}, {fieldSnapshotAgain, &p.Again},
		{fieldSnapshotWhere, &p.Where}, {fieldSnapshotKey, &p.Key}, {fieldSnapshotPos, &p.Pos}, {fieldSnapshotReason, &p.Reason},
	} {
		*f.to, _ = o.Text(f.name)
	}
	p.Rows, _ = o.Int(fieldSnapshotRows)
	p.Total, _ = o.Int(fieldSnapshotTotal)
	p.Seq, _ = o.Int(fieldSnapshotSeq)
	p.Began, _ = o.Int(fieldSnapshotBegan)
	p.Ended, _ = o.Int(fieldSnapshotEnded)
	return p, nil
}
