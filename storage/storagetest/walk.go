package storagetest

import (
	"context"
	"errors"
	"fmt"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
)

// maxPages ends the walk over a list that would never end.
const maxPages = 10_000

var errEndless = errors.New("the walk does not end")

// listAll walks a list of items to its end, req.Limit a page.
func listAll(ctx context.Context, s queue.Store, req queue.ListRequest) ([]queue.Item, error) {
	var items []queue.Item
	for range maxPages {
		page, err := s.ListItems(ctx, req)
		if err != nil {
			return nil, fmt.Errorf("ListItems: %w", err)
		}
		if len(page.Items) > req.Limit {
			return nil, fmt.Errorf("ListItems: got %d items, want at most %d", len(page.Items), req.Limit)
		}
		items = append(items, page.Items...)
		if page.Next == "" {
			return items, nil
		}
		req.Cursor = page.Next
	}
	return nil, fmt.Errorf("ListItems: %w", errEndless)
}

// sweepAll walks the whole store and returns what a limit may bury, and the
// number of pages.
func sweepAll(ctx context.Context, s queue.Store, limit int) (items []queue.Item, pages int, err error) {
	req := queue.SweepRequest{Limit: limit}
	for range maxPages {
		page, err := s.Sweep(ctx, req)
		if err != nil {
			return nil, 0, fmt.Errorf("Sweep: %w", err)
		}
		if len(page.Items) > limit {
			return nil, 0, fmt.Errorf("Sweep: got %d items, want at most %d", len(page.Items), limit)
		}
		pages++
		items = append(items, page.Items...)
		if page.Next == "" {
			return items, pages, nil
		}
		req.Cursor = page.Next
	}
	return nil, 0, fmt.Errorf("Sweep: %w", errEndless)
}

// readAll walks the journal to its end, q.Limit a page.
func readAll(ctx context.Context, j storage.Journal, q storage.RecordQuery) ([]queue.Record, error) {
	var records []queue.Record
	for range maxPages {
		page, err := j.Records(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("Records: %w", err)
		}
		if len(page.Records) > q.Limit {
			return nil, fmt.Errorf("Records: got %d, want at most %d", len(page.Records), q.Limit)
		}
		records = append(records, page.Records...)
		if page.Next == "" {
			return records, nil
		}
		q.Cursor = page.Next
	}
	return nil, fmt.Errorf("Records: %w", errEndless)
}
