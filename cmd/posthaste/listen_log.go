package main

import (
	"encoding/json"
	"fmt"
	"time"
)

// requestLine is a request in the log of the development endpoint.
type requestLine struct {
	At           time.Time `json:"at"`
	Method       string    `json:"method"`
	Path         string    `json:"path"`
	WebhookID    string    `json:"webhook_id,omitempty"`
	Queue        string    `json:"queue,omitempty"`
	Subscription string    `json:"subscription,omitempty"`
	Kind         string    `json:"kind,omitempty"`
	Reference    string    `json:"reference,omitempty"`
	Attempt      int       `json:"attempt,omitempty"`
	// Status is what it is answered, 0 for one that went away before.
	Status    int         `json:"status"`
	Signature string      `json:"signature"`
	Kept      bool        `json:"kept,omitempty"`
	Bytes     int         `json:"bytes"`
	Items     []batchLine `json:"items,omitempty"`
}

// batchLine is an item of a request that brings several.
type batchLine struct {
	ID      string `json:"id"`
	Attempt int32  `json:"attempt"`
	Failed  bool   `json:"failed"`
}

// note appends a line to the log, if there is one. It is one write, so that lines of
// several requests do not mix, also of several processes.
func (e *endpoint) note(a *arrival) error {
	if e.log == nil {
		return nil
	}
	d := &a.delivery
	l := requestLine{
		At: a.at.UTC(), Method: a.request.Method, Path: a.request.URL.RequestURI(), WebhookID: d.ID,
		Queue: d.Queue, Subscription: d.Subscription, Kind: d.Kind, Reference: d.Reference, Attempt: d.Attempt,
		Status: a.status, Signature: a.signature, Kept: a.receipt != "", Bytes: len(a.body),
	}
	for i := range a.batch {
		it := &a.batch[i]
		l.Items = append(l.Items, batchLine{it.ID, it.Attempt, a.failed[it.ID]})
	}
	text, err := json.Marshal(l)
	if err == nil {
		_, err = e.log.Write(append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errLog, err)
	}
	return nil
}
