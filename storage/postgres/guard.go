package postgres

import (
	"fmt"

	"github.com/posthaste-io/posthaste/queue"
)

// guards are the documents that groups depend on, as parallel arrays for one statement.
// Groups with the same guard share a row.
type guards struct {
	rows       []int64
	kinds      []string
	namespaces []int64
	names      []string
	revisions  []int64
	// groups are those of each row.
	groups [][]int
	known  map[queue.DocumentGuard]int
}

func (gs *guards) add(group int, g *queue.DocumentGuard) {
	if g == nil {
		return
	}
	if row, found := gs.known[*g]; found {
		gs.groups[row] = append(gs.groups[row], group)
		return
	}
	if gs.known == nil {
		gs.known = map[queue.DocumentGuard]int{}
	}
	row := len(gs.rows)
	gs.known[*g] = row
	gs.rows = append(gs.rows, int64(row))
	gs.kinds = append(gs.kinds, g.Kind)
	gs.namespaces = append(gs.namespaces, int64(g.Namespace))
	gs.names = append(gs.names, g.Name)
	gs.revisions = append(gs.revisions, int64(g.Revision))
	gs.groups = append(gs.groups, []int{group})
}

var guardColumns = []column{
	{"row", "bigint"}, {"kind", "text"}, {"namespace", "bigint"}, {"name", "text"}, {"revision", "bigint"},
}

func (gs *guards) args() []any {
	return []any{gs.rows, gs.kinds, gs.namespaces, gs.names, gs.revisions}
}

// broke returns why groups fail, of rows that do not hold; found are the revisions that
// there are, -1 for none.
func (gs *guards) broke(rows, found []int64) (map[int]error, error) {
	broken := map[int]error{}
	for i, row := range rows {
		if row < 0 || int(row) >= len(gs.groups) {
			return nil, fmt.Errorf("answer is about guard %d of %d", row, len(gs.groups))
		}
		reason := queue.ErrRevision
		if found[i] < 0 {
			reason = queue.ErrNotFound
		}
		for _, group := range gs.groups[row] {
			broken[group] = reason
		}
	}
	return broken, nil
}

// brokenSQL are the common table expressions with the guards that do not hold, whose
// parameters begin at $first.
//
// The lock waits for whoever changes a document, and then shows what that made of it,
// though the statement began before: so all of a produce comes before a change, or sees
// it. It lasts until the produce is committed. The order of the documents is the same in
// every batch, so that no two wait for each other.
func brokenSQL(first int) string {
	return `broken as materialized (
	select g.row, coalesce(d.revision, -1) as found
	from (select * from ` + unnestSQL(first, "g", guardColumns) + ` order by kind, namespace, name, revision) g
	left join lateral (
		select d.revision
		from {s}.documents d
		where d.kind = g.kind and d.namespace = g.namespace and d.name = g.name
		for share
	) d on true
	where d.revision is distinct from g.revision
)`
}
