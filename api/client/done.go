package client

import (
	"encoding/json"
	"fmt"
)

// DoneKind is the kind of an item whose payload is a [Done].
const DoneKind = "item.done"

// Done tells how an item ended: it was completed or buried. It is the payload, in JSON, of
// an item on the queue that OnDone names, which is kept in the transaction that ends the
// other one. Read it by [Leased.JSON], or where it is pushed to an endpoint, by
// json.Unmarshal. Like any item it may be delivered more than once.
type Done struct {
	ItemID string
	// Queue is where the item ended.
	Queue string
	// Kind, Reference and Encoding are the item's.
	Kind      string
	Reference string
	Encoding  string
	// Outcome is completed or buried, Reason why it was buried, such as max_attempts.
	Outcome string
	Reason  string
	// Subscription is empty where no push ended the item.
	Subscription string
	// Status and Error are of the last attempt.
	Status int
	Error  string
	// Response is the head of the endpoint's answer, or the consumer's result.
	Response []byte
	// ResponseCut says that Response is shorter than what the attempt log has of it.
	ResponseCut bool
	// Attempts is the used budget, Deliveries how often it was leased.
	Attempts   int
	Deliveries int
	// DeadQueue is where a buried item lies.
	DeadQueue string
}

// UnmarshalJSON implements [json.Unmarshaler].
func (d *Done) UnmarshalJSON(text []byte) error {
	var w struct {
		ItemID       string  `json:"item_id"`
		QueueName    string  `json:"queue_name"`
		Kind         string  `json:"kind"`
		Reference    string  `json:"reference"`
		Encoding     string  `json:"encoding"`
		Outcome      string  `json:"outcome"`
		Reason       string  `json:"reason"`
		Subscription string  `json:"subscription"`
		Status       int     `json:"status"`
		Error        string  `json:"error"`
		Response     []byte  `json:"response"`
		ResponseText *string `json:"response_text"`
		ResponseCut  bool    `json:"response_cut"`
		Attempts     int     `json:"attempts"`
		Deliveries   int     `json:"deliveries"`
		DeadQueue    string  `json:"dead_queue"`
	}
	if err := json.Unmarshal(text, &w); err != nil {
		return fmt.Errorf("posthaste: done: %w", err)
	}
	if w.ResponseText != nil {
		w.Response = []byte(*w.ResponseText)
	}
	*d = Done{
		ItemID: w.ItemID, Queue: w.QueueName, Kind: w.Kind, Reference: w.Reference, Encoding: w.Encoding,
		Outcome: w.Outcome, Reason: w.Reason, Subscription: w.Subscription, Status: w.Status, Error: w.Error,
		Response: w.Response, ResponseCut: w.ResponseCut, Attempts: w.Attempts, Deliveries: w.Deliveries, DeadQueue: w.DeadQueue,
	}
	return nil
}
