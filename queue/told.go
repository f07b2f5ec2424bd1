package queue

import (
	"context"
	"errors"
)

// tell makes the item that tells of an end, none if it cannot be told. Its queue or topic is
// pinned. Told to a topic it goes to all who want it.
func (b *Broker) tell(ctx context.Context, n *notice, d *Done, pinned *pinSet) ([]NewItem, error) {
	to, err := b.pinTold(ctx, n, pinned)
	if to == nil || err != nil {
		return nil, err
	}
	it, err := n.tell(d, to)
	if err != nil {
		return nil, err
	}
	items := []NewItem{it}
	read := to.latest.Load()
	if read.Topic == nil {
		b.place(to, items)
		return items, nil
	}
	return items, b.chooseCopies(ctx, read, items)
}

// settleApart is the store's Settle for groups that have nothing to do with each other. One
// for which a transaction of the store has no room is answered with nil, and was not applied.
func (b *Broker) settleApart(ctx context.Context, groups []SettleGroup) (SettleAnswer, error) {
	answer, err := b.store.Settle(ctx, groups)
	switch {
	case !errors.As(err, new(*TooLargeError)):
		return answer, err
	case len(groups) == 1:
		return SettleAnswer{Groups: [][]Settled{nil}}, nil
	}
	half := len(groups) / 2
	if answer, err = b.settleApart(ctx, groups[:half]); err != nil {
		return SettleAnswer{}, err
	}
	rest, err := b.settleApart(ctx, groups[half:])
	if err != nil {
		return SettleAnswer{}, err
	}
	if rest.Now.After(answer.Now) {
		answer.Now = rest.Now
	}
	answer.Groups = append(answer.Groups, rest.Groups...)
	return answer, nil
}

// toldTooMuch is an error of the store, which has no room for a call, as that of the topics
// that it tells. Nil says that the one entry can go without telling.
func toldTooMuch(err error, entries []Settlement) error {
	large, ok := errors.AsType[*TooLargeError](err)
	if !ok {
		return err
	}
	told, of, topic := toldOf(entries)
	switch {
	case told == 0:
		return err
	case len(entries) == 1:
		return nil
	}
	return &FanOutError{Field: "receipts", Topic: topic, Items: told, Copies: of.entries, Limit: large.Limit, Unit: large.Unit}
}

// checkTold judges what a call tells topics of. Where it is too much a caller can do with
// fewer receipts; one alone never is.
func checkTold(entries []Settlement) error {
	told, of, topic := toldOf(entries)
	if told < 2 {
		return nil
	}
	return checkFanOut("receipts", topic, told, of)
}

// toldOf is what a call tells topics, in how many items, and the last of the topics.
func toldOf(entries []Settlement) (told int, of burden, topic string) {
	for i := range entries {
		for j := range entries[i].Produce {
			it := &entries[i].Produce[j]
			if it.Topic == 0 {
				continue
			}
			told, topic = told+1, it.Guard.Name
			of.entries += it.Places()
			of.bytes += it.written()
		}
	}
	return told, of, topic
}

// rereadTopics reads those of pinned queues again that are topics: their subscribers are
// others than a call was made by.
func (b *Broker) rereadTopics(ctx context.Context, pinned []*knownQueue) error {
	for _, q := range pinned {
		if q.settings().Topic == nil {
			continue
		}
		if _, err := b.known.rereadEither(ctx, q.ns, q.name); err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
	}
	return nil
}

// addProduced wakes the queues that got what a settlement produced.
func (w *wakes) addProduced(s *Settlement) {
	for i := range s.Produce {
		it := &s.Produce[i]
		for c := range it.Places() {
			w.add(it.Place(c).Queue)
		}
	}
}
