package cli

import (
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/posthaste-io/posthaste/api/client"
)

// What --json prints, with the names and spellings of the API.

// span is a duration as the API writes it: 90s, 1.5s.
type span time.Duration

// MarshalText implements encoding.TextMarshaler.
func (s span) MarshalText() ([]byte, error) {
	return []byte(strconv.FormatFloat(time.Duration(s).Seconds(), 'f', -1, 64) + "s"), nil
}

// payload is bytes as text where they are text, else as base64.
type payload struct {
	UTF8  *string `json:"utf8,omitempty"`
	Bytes []byte  `json:"bytes,omitempty"`
}

func payloadOf(b []byte) payload {
	if utf8.Valid(b) {
		return payload{UTF8: new(string(b))}
	}
	return payload{Bytes: b}
}

type producedView struct {
	ItemID    string `json:"item_id"`
	Duplicate bool   `json:"duplicate"`
	Copies    *int   `json:"copies,omitempty"`
}

func producedViewOf(p client.Produced) producedView {
	return producedView{ItemID: p.ItemID, Duplicate: p.Duplicate, Copies: p.Copies}
}

type leasedView struct {
	ItemID    string `json:"item_id"`
	Receipt   string `json:"receipt"`
	Kind      string `json:"kind,omitempty"`
	Encoding  string `json:"encoding,omitempty"`
	Reference string `json:"reference,omitempty"`
	payload
	Headers       map[string]string `json:"headers,omitempty"`
	Attempts      int               `json:"attempts"`
	Recoveries    int               `json:"recoveries,omitempty"`
	LastError     string            `json:"last_error,omitempty"`
	LeaseDeadline time.Time         `json:"lease_deadline,omitzero"`
	CreatedAt     time.Time         `json:"created_at,omitzero"`
	Traceparent   string            `json:"traceparent,omitempty"`
}

func leasedViewOf(it client.Leased) leasedView {
	return leasedView{
		ItemID: it.ItemID, Receipt: it.Receipt, Kind: it.Kind, Encoding: it.Encoding, Reference: it.Reference,
		payload: payloadOf(it.Payload), Headers: it.Headers, Attempts: it.Deliveries, Recoveries: it.Recoveries,
		LastError: it.LastError, LeaseDeadline: it.LeaseDeadline, CreatedAt: it.CreatedAt, Traceparent: it.Traceparent,
	}
}

type settledView struct {
	Receipt       string    `json:"receipt"`
	Status        string    `json:"status"`
	Buried        bool      `json:"buried,omitempty"`
	AvailableAt   time.Time `json:"available_at,omitzero"`
	LeaseDeadline time.Time `json:"lease_deadline,omitzero"`
}

type queueView struct {
	QueueName     string `json:"queue_name"`
	DeadQueue     string `json:"dead_queue,omitempty"`
	Reference     string `json:"reference,omitempty"`
	LeaseTimeout  span   `json:"lease_timeout"`
	ExpireTimeout span   `json:"expire_timeout,omitempty"`
	KeepEnded     span   `json:"keep_ended,omitempty"`
	MaxAttempts   int    `json:"max_attempts"`
	MaxRecoveries int    `json:"max_recoveries"`
	ParkAfter     int    `json:"park_after,omitempty"`
	Partitions    int    `json:"requested_partitions"`
	// Draining are read-only partitions that still hold items.
	Draining  []drainingView `json:"draining,omitempty"`
	Pause     string         `json:"pause,omitempty"`
	CreatedAt time.Time      `json:"created_at,omitzero"`
	UpdatedAt time.Time      `json:"updated_at,omitzero"`
	Revision  string         `json:"revision,omitempty"`
}

type drainingView struct {
	Partition int `json:"partition"`
	Total     int `json:"total"`
}

func queueViewOf(q client.Queue) queueView {
	var draining []drainingView
	for _, p := range q.Draining {
		draining = append(draining, drainingView(p))
	}
	return queueView{
		QueueName: q.Name, DeadQueue: q.DeadQueue, Reference: q.Reference, LeaseTimeout: span(q.LeaseTimeout),
		ExpireTimeout: span(q.ExpireTimeout), KeepEnded: span(q.KeepEnded), MaxAttempts: q.MaxAttempts,
		MaxRecoveries: q.MaxRecoveries, ParkAfter: q.ParkAfter, Partitions: q.Partitions, Draining: draining, Pause: q.Pause, CreatedAt: q.CreatedAt, UpdatedAt: q.UpdatedAt, Revision: q.Revision,
	}
}

// statsView sums what queue.stats tells by partition.
type statsView struct {
	QueueName        string `json:"queue_name"`
	Total            int    `json:"total"`
	Ready            int    `json:"ready"`
	Scheduled        int    `json:"scheduled"`
	Capped           bool   `json:"capped,omitempty"`
	Behind           int    `json:"behind,omitempty"`
	TotalLeased      int    `json:"total_leased"`
	Failures         int    `json:"failures"`
	AverageAge       span   `json:"average_age"`
	AverageLeasedAge span   `json:"average_leased_age"`
	ProduceWaiting   int    `json:"produce_waiting"`
	LeaseWaiting     int    `json:"lease_waiting"`
	CompleteWaiting  int    `json:"complete_waiting"`
}

func statsViewOf(queue string, s client.Stats) statsView {
	return statsView{
		QueueName: queue, Total: s.Total, Ready: s.Ready(), Scheduled: s.Scheduled, Capped: s.Capped, Behind: s.Behind,
		TotalLeased: s.Leased, Failures: s.Failing, AverageAge: span(s.MeanAge), AverageLeasedAge: span(s.MeanLeasedAge),
		ProduceWaiting: s.ProduceWaiting, LeaseWaiting: s.LeaseWaiting, CompleteWaiting: s.SettleWaiting,
	}
}

type itemInfoView struct {
	ItemID       string    `json:"item_id"`
	QueueName    string    `json:"queue_name"`
	State        string    `json:"state"`
	Why          string    `json:"why"`
	Message      string    `json:"message"`
	NextAt       time.Time `json:"next_at,omitzero"`
	Deliveries   int       `json:"deliveries"`
	Attempts     int       `json:"attempts"`
	Recoveries   int       `json:"recoveries"`
	LastStatus   int       `json:"last_status,omitempty"`
	LastError    string    `json:"last_error,omitempty"`
	Subscription string    `json:"subscription,omitempty"`
	Result       []byte    `json:"result,omitempty"`
	EndedAt      time.Time `json:"ended_at,omitzero"`
}

func itemInfoViewOf(id string, i client.ItemInfo) itemInfoView {
	return itemInfoView{
		ItemID: id, QueueName: i.Queue, State: i.State, Why: i.Why, Message: i.Message, NextAt: i.NextAt,
		Deliveries: i.Deliveries, Attempts: i.Attempts, Recoveries: i.Recoveries, LastStatus: i.LastStatus,
		LastError: i.LastError, Subscription: i.Subscription, Result: i.Result, EndedAt: i.EndedAt,
	}
}

type itemView struct {
	ID             string            `json:"id"`
	SourceID       string            `json:"source_id,omitempty"`
	State          string            `json:"state"`
	Kind           string            `json:"kind,omitempty"`
	Encoding       string            `json:"encoding,omitempty"`
	Reference      string            `json:"reference,omitempty"`
	Payload        []byte            `json:"payload"`
	Headers        map[string]string `json:"headers,omitempty"`
	OrderingKey    string            `json:"ordering_key,omitempty"`
	EnqueueAt      time.Time         `json:"enqueue_at,omitzero"`
	LeaseDeadline  time.Time         `json:"lease_deadline,omitzero"`
	ExpireDeadline time.Time         `json:"expire_deadline,omitzero"`
	CreatedAt      time.Time         `json:"created_at,omitzero"`
	UpdatedAt      time.Time         `json:"updated_at,omitzero"`
	Deliveries     int               `json:"deliveries"`
	Attempts       int               `json:"attempts"`
	MaxAttempts    int               `json:"max_attempts,omitempty"`
	Recoveries     int               `json:"recoveries"`
	Target         *targetView       `json:"target,omitempty"`
	OnDone         string            `json:"on_done,omitempty"`
	Dead           *deadView         `json:"dead,omitempty"`
}

type targetView struct {
	URL     string `json:"url"`
	Method  string `json:"method,omitempty"`
	Timeout span   `json:"timeout,omitempty"`
}

type deadView struct {
	Queue      string    `json:"queue"`
	Reason     string    `json:"reason"`
	At         time.Time `json:"at,omitzero"`
	LastStatus int       `json:"last_status,omitempty"`
	Attempts   int       `json:"attempts"`
	Recoveries int       `json:"recoveries"`
}

func itemViewOf(it client.StoredItem) itemView {
	v := itemView{
		ID: it.ItemID, SourceID: it.SourceID, State: it.State, Kind: it.Kind, Encoding: it.Encoding, Reference: it.Reference,
		Payload: it.Payload, Headers: it.Headers, EnqueueAt: it.EnqueueAt, LeaseDeadline: it.LeaseDeadline,
		ExpireDeadline: it.ExpiresAt, CreatedAt: it.CreatedAt, UpdatedAt: it.UpdatedAt, Deliveries: it.Deliveries,
		Attempts: it.Attempts, MaxAttempts: it.MaxAttempts, Recoveries: it.Recoveries, OnDone: it.OnDone, OrderingKey: it.OrderingKey,
	}
	if t := it.Target; t != nil {
		v.Target = new(targetView{t.URL, t.Method, span(t.Timeout)})
	}
	if d := it.Dead; d != nil {
		v.Dead = new(deadView{d.Queue, d.Reason, d.At, d.LastStatus, d.Attempts, d.Recoveries})
	}
	return v
}

// countView is what clear, cancel and redrive answer.
type countView struct {
	Count    int      `json:"count"`
	NotFound []string `json:"not_found,omitempty"`
}
