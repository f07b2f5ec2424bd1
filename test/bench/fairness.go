package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// fairPlan says what healthy endpoints have beside them, and how much they are sent.
type fairPlan struct {
	// endpoints are subscribed altogether: one of them hangs, or dead of them refuse.
	endpoints, dead int
	// backlog is how many items lie behind the endpoint that hangs.
	backlog int
	// rate is how many items each endpoint gets in a second, but for the one that hangs.
	rate  int
	phase time.Duration
	// holds is how many requests the endpoint that hangs has at least.
	holds int
}

// How much later than without trouble an item may come to a healthy endpoint.
const (
	fairBesideHanging = 1.5
	fairBesideDead    = 2
)

// trouble is what one server has beside the healthy endpoints.
type trouble int

const (
	noTrouble trouble = iota + 1
	// backlogOnly has the items of the endpoint that hangs, and nobody who pushes them: what
	// a fuller store costs is not the dispatcher's.
	backlogOnly
	oneHangs
	someRefuse
)

func (p fairPlan) healthy(beside trouble) int {
	if beside == someRefuse {
		return p.endpoints - p.dead
	}
	return p.endpoints - 1
}

// row names the figure of healthy endpoints; alone is that of as many with nothing beside.
func (p fairPlan) row(beside trouble) string {
	switch beside {
	case backlogOnly:
		return p.alone(beside) + ", " + thousands(p.backlog) + " more queued"
	case oneHangs:
		return p.alone(beside) + ", 1 hangs"
	case someRefuse:
		return p.alone(beside) + ", " + strconv.Itoa(p.dead) + " refuse"
	default:
		return p.alone(beside)
	}
}

func (p fairPlan) alone(beside trouble) string {
	return fmt.Sprintf("push p99, %d healthy", p.healthy(beside))
}

// goals are what is wanted of the fairness group.
func (p fairPlan) goals(on []store) (goals []goal) {
	for _, s := range on {
		goals = append(goals,
			than(p.row(oneHangs), s.name, p.alone(oneHangs), s.name, "the same without it", atMost, fairBesideHanging),
			than(p.row(oneHangs), s.name, p.row(backlogOnly), s.name, "the same with its items paused", "", 0),
			than(p.row(someRefuse), s.name, p.alone(someRefuse), s.name, "the same without them", atMost, fairBesideDead))
	}
	return goals
}

// scene is a server with its subscriptions.
type scene struct {
	beside trouble
	server *server
	// refused are the queues whose endpoints are dead; they are sent as much as others.
	refused []string
}

// fairRows paces items to healthy endpoints, on a server for each trouble that they may
// have beside them. They are up together and take turns; those that have no turn are idle,
// but for what their trouble costs.
func (b *bench) fairRows(ctx context.Context, on store) (err error) {
	to, err := openFleet(b.plan.fair)
	if err != nil {
		return err
	}
	defer func() {
		if endErr := to.end(); err == nil {
			err = endErr
		}
	}()
	var all []*scene
	defer func() {
		for _, s := range all {
			if stopErr := s.server.stop(); err == nil {
				err = stopErr
			}
		}
	}()
	for _, beside := range []trouble{noTrouble, backlogOnly, oneHangs, someRefuse} {
		s, err := b.start(ctx, on)
		if err != nil {
			return err
		}
		one := &scene{beside: beside, server: s}
		all = append(all, one)
		if err := b.fairScene(ctx, one, to); err != nil {
			return fmt.Errorf("fairness on %s: %w", on.name, err)
		}
	}
	p := b.plan.fair
	for range b.plan.rounds {
		for _, turn := range []struct {
			scene   *scene
			row     string
			healthy int
		}{
			{all[0], p.row(noTrouble), p.healthy(noTrouble)},
			{all[1], p.row(backlogOnly), p.healthy(backlogOnly)},
			{all[2], p.row(oneHangs), p.healthy(oneHangs)},
			{all[0], p.alone(someRefuse), p.healthy(someRefuse)},
			{all[3], p.row(someRefuse), p.healthy(someRefuse)},
		} {
			if err := b.fairPhase(ctx, turn.scene, b.sheet.row(turn.row, on, "ms"), turn.healthy, to); err != nil {
				return fmt.Errorf("fairness on %s: %s: %w", on.name, turn.row, err)
			}
		}
	}
	return nil
}

// healthyQueue is the queue of the ith healthy endpoint.
func healthyQueue(i int) string { return "healthy-" + strconv.Itoa(i) }

// fairScene subscribes the endpoints, and waits until the trouble is there.
func (b *bench) fairScene(ctx context.Context, s *scene, to *fleet) error {
	c, err := newClient(s.server.host)
	if err != nil {
		return err
	}
	defer c.close()
	subscribe := func(name, url string, more string) error {
		return c.call("subscriptions.create", `{"name":"`+name+`","queue_name":"`+name+`","url":"`+url+`"`+more+`}`)
	}
	for i := range b.plan.fair.healthy(s.beside) {
		if err := subscribe(healthyQueue(i), to.healthy[i], ""); err != nil {
			return err
		}
	}
	switch s.beside {
	case backlogOnly:
		if err := subscribe("hangs", to.hangsURL, `,"paused":true`); err != nil {
			return err
		}
		return fill(s.server.host, "hangs", b.plan.fair.backlog)
	case oneHangs:
		if err := c.call("queues.create", `{"queue_name":"hangs"}`); err != nil {
			return err
		}
		if err := fill(s.server.host, "hangs", b.plan.fair.backlog); err != nil {
			return err
		}
		// It may hold all that one subscription is ever allowed, for as long as this takes:
		// the rest is the server's to guard. One that was paused before would start slowly.
		if err := subscribe("hangs", to.hangsURL, `,"max_in_flight":1000,"timeout":"30m"`); err != nil {
			return err
		}
		return to.hanging.wait(ctx)
	case someRefuse:
		for i, url := range to.dead {
			name := "dead-" + strconv.Itoa(i)
			if err := subscribe(name, url, ""); err != nil {
				return err
			}
			s.refused = append(s.refused, name)
		}
	}
	return nil
}

// fairProducers share the pace; each has a connection of its own.
const fairProducers = 8

// fairPhase paces items to the endpoints of a scene for one phase, and adds to the row how
// long those took to arrive that went to the first n healthy ones.
func (b *bench) fairPhase(ctx context.Context, s *scene, row *Row, n int, to *fleet) error {
	queues := slices.Clone(s.refused)
	for i := range n {
		queues = append(queues, healthyQueue(i))
	}
	p := b.plan.fair
	gap := time.Second / time.Duration(p.rate*len(queues))
	f := to.expect(int(p.phase / gap))
	timed, cancel := context.WithTimeout(ctx, p.phase)
	defer cancel()
	err := crew(s.server.host, fairProducers, func(i int, c *client) error {
		for at := i; at < len(f.acknowledged) && until(timed, f.began.Add(time.Duration(at)*gap)); at += fairProducers {
			f.number(c.payload[stampSize:], at)
			if err := c.produce(queues[at%len(queues)], 1); err != nil {
				return err
			}
			if at%len(queues) >= len(s.refused) {
				f.acknowledged[at].Store(int64(time.Since(f.began)))
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	took := f.took(ctx, fairPatience)
	if s.beside == oneHangs {
		if err := to.hanging.check(); err != nil {
			return fmt.Errorf("the endpoint that hangs: %w", err)
		}
		_, most := to.hanging.holds()
		row.also("held_by_it", float64(most))
	}
	if len(took) == 0 {
		return fmt.Errorf("nothing was sent in %s", p.phase)
	}
	slices.Sort(took)
	row.add(quantile(took, 0.99))
	row.also("p50_ms", quantile(took, 0.5))
	row.also("items", float64(len(took)))
	return nil
}
