package schedules

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/posthaste-io/posthaste/cron"
	"github.com/posthaste-io/posthaste/queue"
)

// Document is a schedule as it is stored. Its names are a format: a field is never
// renamed, and a new one must mean its default when it is missing.
type Document struct {
	Namespace    queue.Namespace   `json:"namespace"`
	Name         string            `json:"name"`
	ID           string            `json:"id"`
	Cron         string            `json:"cron"`
	Zone         string            `json:"zone"`
	Queue        string            `json:"queue"`
	Item         ItemDocument      `json:"item"`
	Forward      cron.Forward      `json:"forward,omitempty"`
	Back         cron.Back         `json:"back,omitempty"`
	Missed       MissedDocument    `json:"missed,omitzero"`
	Overlap      Overlap           `json:"overlap,omitempty"`
	Jitter       time.Duration     `json:"jitter,omitempty"`
	StartAt      time.Time         `json:"start_at,omitzero"`
	EndAt        time.Time         `json:"end_at,omitzero"`
	Paused       bool              `json:"paused,omitempty"`
	Labels       map[string]string `json:"labels,omitempty"`
	NominalAt    time.Time         `json:"nominal_at,omitzero"`
	DecidedAt    time.Time         `json:"decided_at,omitzero"`
	LastAt       time.Time         `json:"last_at,omitzero"`
	LastFiredAt  time.Time         `json:"last_fired_at,omitzero"`
	LastItem     string            `json:"last_item,omitempty"`
	LastError    string            `json:"last_error,omitempty"`
	MissedCount  int64             `json:"missed_count,omitempty"`
	SkippedCount int64             `json:"skipped_count,omitempty"`
	CreatedAt    time.Time         `json:"created_at"`
	UpdatedAt    time.Time         `json:"updated_at"`
	// Settings is the revision of the settings, from 1 on.
	Settings uint64 `json:"settings,omitempty"`
}

// MissedDocument is a [Missed] as it is stored.
type MissedDocument struct {
	Policy MissedPolicy  `json:"policy,omitempty"`
	Max    int           `json:"max,omitempty"`
	Grace  time.Duration `json:"grace,omitempty"`
}

// ItemDocument is what is produced, as it is stored.
type ItemDocument struct {
	Kind        string            `json:"kind,omitempty"`
	Encoding    string            `json:"encoding,omitempty"`
	Reference   string            `json:"reference,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Target      *TargetDocument   `json:"target,omitempty"`
	OnDone      string            `json:"on_done,omitempty"`
	OrderingKey string            `json:"ordering_key,omitempty"`
	Payload     []byte            `json:"payload,omitempty"`
	MaxAttempts int32             `json:"max_attempts,omitempty"`
	ExpireTTL   time.Duration     `json:"expire_ttl,omitempty"`
}

// TargetDocument is an item's own endpoint, as it is stored.
type TargetDocument struct {
	URL     string        `json:"url"`
	Method  string        `json:"method,omitempty"`
	Timeout time.Duration `json:"timeout,omitempty"`
}

func toDocument(s *Schedule) Document {
	d := Document{
		Namespace: s.Namespace, Name: s.Name, ID: s.ID, Cron: s.Cron, Zone: s.Zone, Queue: s.Queue,
		Item: ItemDocument{
			Kind: s.Item.Kind, Encoding: s.Item.Encoding, Reference: s.Item.Reference, Headers: s.Item.Headers,
			OnDone: s.Item.OnDone, OrderingKey: s.Item.OrderingKey, Payload: s.Item.Payload, MaxAttempts: s.Item.MaxAttempts, ExpireTTL: s.Item.ExpireTTL,
		},
		Forward: s.Forward, Back: s.Back, Missed: MissedDocument(s.Missed), Overlap: s.Overlap, Jitter: s.Jitter,
		StartAt: s.StartAt, EndAt: s.EndAt, Paused: s.Paused, Labels: s.Labels,
		NominalAt: s.NominalAt, DecidedAt: s.DecidedAt, LastAt: s.LastAt, LastFiredAt: s.LastFiredAt,
		MissedCount: s.MissedCount, SkippedCount: s.SkippedCount, CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt,
		LastError: s.LastError, Settings: s.Revision,
	}
	if t := s.Item.Target; t != nil {
		d.Item.Target = (*TargetDocument)(t)
	}
	if !s.LastItem.IsZero() {
		d.LastItem = s.LastItem.String()
	}
	return d
}

// read returns what a document says.
func read(doc *queue.Versioned[Document]) (Schedule, error) {
	if doc.Err != nil {
		return Schedule{}, doc.Err
	}
	return fromDocument(&doc.Value, doc.Revision)
}

func fromDocument(d *Document, revision uint64) (Schedule, error) {
	if !d.isKnown() {
		return Schedule{}, fmt.Errorf("schedule %s: it has a policy that this release does not know: written by a newer release, or damaged", d.Name)
	}
	s := Schedule{
		Namespace: d.Namespace, Name: d.Name, ID: d.ID, Cron: d.Cron, Zone: d.Zone, Queue: d.Queue,
		Item: queue.ProduceItem{
			Content: queue.Content{
				Kind: d.Item.Kind, Encoding: d.Item.Encoding, Reference: d.Item.Reference, Headers: d.Item.Headers,
				OnDone: d.Item.OnDone, OrderingKey: d.Item.OrderingKey, Payload: d.Item.Payload, Target: (*queue.Target)(d.Item.Target),
			},
			MaxAttempts: d.Item.MaxAttempts, ExpireTTL: d.Item.ExpireTTL,
		},
		Forward: d.Forward, Back: d.Back, Missed: Missed(d.Missed), Overlap: d.Overlap, Jitter: d.Jitter,
		StartAt: d.StartAt, EndAt: d.EndAt, Paused: d.Paused, Labels: d.Labels,
		NominalAt: d.NominalAt, DecidedAt: d.DecidedAt, LastAt: d.LastAt, LastFiredAt: d.LastFiredAt,
		MissedCount: d.MissedCount, SkippedCount: d.SkippedCount, CreatedAt: d.CreatedAt, UpdatedAt: d.UpdatedAt,
		LastError: d.LastError, Revision: max(d.Settings, 1), stored: revision,
	}
	if d.LastItem != "" {
		id, err := queue.ParseID(d.LastItem)
		if err != nil {
			return Schedule{}, fmt.Errorf("schedule %s: last item: %w", d.Name, err)
		}
		s.LastItem = id
	}
	return s, nil
}

// isKnown says whether this release knows all policies.
func (d *Document) isKnown() bool {
	return d.Forward >= cron.RunAfter && d.Forward <= cron.SkipForward && d.Back >= cron.First && d.Back <= cron.Both &&
		d.Missed.Policy >= MissLatest && d.Missed.Policy <= MissAll && d.Overlap >= OverlapAllow && d.Overlap <= OverlapQueueOne
}

// size is what the document takes, in bytes.
func (d *Document) size() int {
	text, err := json.Marshal(d)
	if err != nil {
		return 0 // it is refused when it is written
	}
	return len(text)
}
