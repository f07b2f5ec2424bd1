package postgres

import (
	"fmt"

	"github.com/posthaste-io/posthaste/queue"
)

// guards are the documents that groups depend on, as parallel arrays for one statement.
// Groups with the same guard share a row; they are added in order.
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
		if last := len(gs.groups[row]) - 1; gs.groups[row][last] != group {
			gs.groups[row] = append(gs.groups[row], group)
		}
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

// groupArgs are args, and then the rows that each group depends on.
func (gs *guards) groupArgs() []any {
	var rows []int64
	var groups []int32
	for row, of := range gs.groups {
		for _, group := range of {
			rows, groups = append(rows, int64(row)), append(groups, int32(group))
		}
	}
	return append(gs.args(), rows, groups)
}

// overtakenSQL is brokenSQL with the groups, as grp, whose guards do not hold, where the
// parameters are groupArgs.
func overtakenSQL(first int) string {
	return brokenSQL(first) + fmt.Sprintf(`, overtaken as materialized (
	select g.grp from unnest($%d::bigint[], $%d::integer[]) as g (row, grp) join broken b on b.row = g.row
)`, first+len(guardColumns), first+len(guardColumns)+1)
}

// broke returns the groups of rows that do not hold.
func (gs *guards) broke(rows []int64) (map[int]bool, error) {
	broken := map[int]bool{}
	for _, row := range rows {
		if row < 0 || int(row) >= len(gs.groups) {
			return nil, fmt.Errorf("answer is about guard %d of %d", row, len(gs.groups))
		}
		for _, group := range gs.groups[row] {
			broken[group] = true
		}
	}
	return broken, nil
}

// brokenSQL are the common table expressions with the guards that do not hold, whose
// parameters begin at $first.
//
// The lock waits for whoever changes a document, and then shows what that made of it,
// though the statement began before: so all that is done by a document comes before
// a change, or sees it. It lasts until that is committed. The order of the documents is the
// same in every batch, so that no two wait for each other; whether it comes before or after
// the locks of items makes no difference, since who changes a document waits for no item.
func brokenSQL(first int) string {
	return `broken as materialized (
	select g.row
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
