package cli

import (
	"context"
	"time"

	"github.com/posthaste-io/posthaste/api/client"
)

type keyView struct {
	OrderingKey string    `json:"ordering_key"`
	ItemID      string    `json:"item_id"`
	State       string    `json:"state"`
	NextAt      time.Time `json:"next_at,omitzero"`
	CreatedAt   time.Time `json:"created_at,omitzero"`
	Attempts    int       `json:"attempts"`
	LastStatus  int       `json:"last_status,omitempty"`
	LastError   string    `json:"last_error,omitempty"`
	Behind      int       `json:"behind"`
}

type queuesKeysCommand struct {
	Queue string `arg:"" help:"The queue."`
	connection
}

// run implements Command.
func (f *queuesKeysCommand) run(ctx context.Context, c *console) error {
	return f.with(ctx, func(ctx context.Context, cl *client.Client) error {
		rows, now := newTable("key", ">behind", "head", "state", "next", ">attempts", ">status", "age"), time.Now()
		for k, err := range cl.OrderingKeys(ctx, f.Queue) {
			if err != nil {
				return err
			}
			if f.JSON {
				if err := c.object(keyView{k.Key, k.HeadID, k.State, k.NextAt, k.CreatedAt, k.Attempts, k.LastStatus, k.LastError, k.Behind}); err != nil {
					return err
				}
				continue
			}
			rows.add(cell{text: k.Key}, cell{text: count(k.Behind)}, cell{text: k.HeadID}, cell{text: k.State}, cell{text: when(k.NextAt, now)},
				cell{text: count(k.Attempts)}, cell{text: count(k.LastStatus)}, cell{text: shortSpan(now.Sub(k.CreatedAt))})
		}
		if f.JSON {
			return nil
		}
		return rows.print(c)
	})
}

type queuesUnblockCommand struct {
	Queue string `arg:"" help:"The queue."`
	Item  string `arg:"" help:"The head of the key, as queues keys tells it."`
	Skip  bool   `help:"Bury it, so that the next goes."`

	connection
}

// run implements Command.
func (f *queuesUnblockCommand) run(ctx context.Context, c *console) error {
	return f.with(ctx, func(ctx context.Context, cl *client.Client) error {
		done, do := "is tried again", cl.Unblock
		if f.Skip {
			done, do = "is buried", cl.SkipHead
		}
		if err := do(ctx, f.Queue, f.Item); err != nil {
			return err
		}
		return f.done(c, map[string]string{"item_id": f.Item}, "%s %s", f.Item, done)
	})
}
