package postgres

import (
	"fmt"
	"strings"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// column is one of the parallel arrays that a statement takes.
type column struct{ name, typ string }

// unnestSQL makes a table of parallel arrays whose parameters begin at $first.
// Arrays that are shorter, or null, are filled up with nulls.
func unnestSQL(first int, alias string, columns []column) string {
	params, names := make([]string, len(columns)), make([]string, len(columns))
	for i, c := range columns {
		params[i] = fmt.Sprintf("$%d::%s[]", first+i, c.typ)
		names[i] = c.name
	}
	return "unnest(" + strings.Join(params, ", ") + ") as " + alias + " (" + strings.Join(names, ", ") + ")"
}

// recordColumns are what a caller says in a journal record, in the order of
// [records.args]. They stand in the row of the entry that the record belongs to;
// record_type is null where there is none.
var recordColumns = []column{
	{"record_type", "smallint"},
	{"subscription", "text"},
	{"started_at", "timestamptz"},
	{"duration", "bigint"},
	{"verdict", "text"},
	{"status_code", "integer"},
	{"error", "text"},
	{"response", "bytea"},
	{"node", "text"},
}

// records are the arrays of recordColumns. They stay empty, which reads as nulls, as long
// as no entry has a record: most settlements of consumers have none.
type records struct {
	entries       int
	types         []*int16
	subscriptions []string
	started       []*time.Time
	durations     []int64
	verdicts      []string
	statuses      []int32
	errors        []string
	responses     [][]byte
	nodes         []string
}

// add appends an entry's record, or nil.
func (r *records) add(rec *queue.Record) {
	r.entries++
	if rec == nil {
		return
	}
	for len(r.types) < r.entries-1 {
		r.append(&queue.Record{})
	}
	r.append(rec)
}

func (r *records) append(rec *queue.Record) {
	var typ *int16
	if rec.Type != 0 {
		typ = new(int16(rec.Type))
	}
	r.types = append(r.types, typ)
	r.subscriptions = append(r.subscriptions, rec.Subscription)
	r.started = append(r.started, optional(rec.StartedAt.UTC()))
	r.durations = append(r.durations, int64(rec.Duration))
	r.verdicts = append(r.verdicts, rec.Verdict)
	r.statuses = append(r.statuses, rec.Status)
	r.errors = append(r.errors, rec.Error)
	r.responses = append(r.responses, rec.Response)
	r.nodes = append(r.nodes, rec.Node)
}

func (r *records) args() []any {
	return []any{r.types, r.subscriptions, r.started, r.durations, r.verdicts, r.statuses, r.errors, r.responses, r.nodes}
}

const (
	lapseRecord = "2" // queue.LapseRecord

	stepComplete = "1" // queue.StepComplete
	stepRetry    = "2" // queue.StepRetry
	stepRelease  = "3" // queue.StepRelease
	stepBury     = "4" // queue.StepBury
	stepHold     = "5" // queue.StepHold
)

// recordSQL inserts into the journal what lines holds: a select of (place, turn, now,
// type, next, id, queue, home, deliveries, next_at) and the recordColumns after the
// first. Records are numbered in the order of place and turn.
func recordSQL(lines string) string {
	return `insert into {s}.attempts (at, namespace, type, next, item, queue, home, delivery, next_at,
		subscription, started_at, duration, verdict, status, error, response, node)
	select now, (queue >> 32) & 4294967295, type, next, id, queue, home, deliveries, next_at,
		subscription, started_at, duration, verdict, status_code, error, response, node
	from (` + lines + `) l
	order by place, turn`
}
