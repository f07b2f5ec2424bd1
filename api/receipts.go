package api

import (
	"context"
	"errors"
	"net/http"

	"google.golang.org/protobuf/proto"

	v1 "github.com/posthaste-io/posthaste/api/v1"
	"github.com/posthaste-io/posthaste/queue"
)

// A receipt is the credential for its own item: an endpoint that finishes later settles
// with it and has no key. Such a caller is told of its items as everybody is, and of
// nothing else, also not whether there is a queue of some name.

// hasNoKey says that a caller was refused since it has no key, not for a wrong one.
func hasNoKey(err error) bool {
	e, ok := errors.AsType[*keyError](err)
	return ok && !e.invalid
}

// receiptsOf returns the namespace of the receipts that are all that a call has to show.
// denied is what it is answered if it has none. The name that it gives beside them goes
// into no log, since anything may stand there, also a key.
func (m *method[Q, P]) receiptsOf(q Q, denied error) (ns queue.Namespace, err error) {
	l := m.receipts(q)
	if len(l.texts) == 0 {
		return 0, denied
	}
	var of queue.Number
	for i, text := range l.texts {
		r, err := queue.ParseReceipt(text)
		if err != nil {
			return 0, &keyError{reason: "the call has no key, and " + l.path(i) + " does not stand for one: " + err.Error()}
		}
		if i > 0 && r.Key.Queue != of {
			// Numbers can be made up, and each costs a look into the store.
			return 0, queue.Invalid(l.path(i), "is of another queue than %s; without a key, settle each queue's in a call of their own", l.path(0))
		}
		of = r.Key.Queue
	}
	if name := m.target(q); name != "" {
		return of.Namespace(), queue.CheckReference(m.field(q), name)
	}
	return of.Namespace(), nil
}

// paced refuses a caller without a key who was wrong too often, and counts this time.
// That is told only where nothing was done.
func (s *Server) paced(r *http.Request, reply proto.Message, err error) error {
	wrong := mistakes(reply, err)
	if wrong == 0 {
		return err
	}
	if wait := s.guesses.take(remoteAddr(r), wrong); wait > 0 {
		return &guessError{what: "receipts that settle nothing", wait: wait}
	}
	return err
}

// mistakes counts what a call got wrong that had receipts alone.
func mistakes(reply proto.Message, err error) int {
	if e, ok := errors.AsType[*refusedError](err); ok {
		return len(e.stale.Entries)
	}
	if err != nil {
		if status := failureOf(err).status; status >= http.StatusInternalServerError || status == http.StatusTooManyRequests || hasNoKey(err) {
			return 0
		}
		return 1
	}
	answer, ok := reply.(*v1.SettleReply)
	if !ok {
		return 0
	}
	for _, result := range answer.GetResults() {
		if result.GetStatus() == statusOK {
			return 0 // who holds one of them is no stranger
		}
	}
	return len(answer.GetResults())
}

// place judges the queue that a call names beside its receipts, where the caller has no
// key: not being there looks like a receipt of no item, else one could ask for names. For
// others the broker does that; name is what it is to be told.
func (s *Server) place(ctx context.Context, c *call, named string, r queue.Receipt) (name string, there bool, err error) {
	if !c.stranger || named == "" {
		return named, true, nil
	}
	found, err := s.broker.QueueName(ctx, r.Key.Queue)
	if err != nil && !errors.Is(err, queue.ErrNotFound) {
		return "", false, err
	}
	return "", found == named, nil
}
