package queue

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// maxImportedAttempts leaves room to count on.
const maxImportedAttempts = 1_000_000

// Import puts items on a queue that were elsewhere before, with the budget that they
// used up and with their deadlines, and returns when they are kept. All of the call's,
// or none. One that is over its limits already is kept, and buried when its turn comes.
//
// An item whose source id lives in the queue, or was buried from it and lives in its
// dead-letter queue, is ignored, within a call too: a repeat is
// harmless until the first one has ended. The answer has the call's order, and for what
// was ignored the item that lives. What ended meanwhile is answered as it was given.
//
// Ids are made of the queue and the source id, so an item that comes once more after its
// end has the same id again.
//
// Errors: [InvalidError] and [TooLargeError], with the item's path as the wire has it;
// [ErrNotFound]; [ErrPaused]; [ErrNotSupported]; [OverloadedError]; [ErrShuttingDown];
// those of [Store].
func (b *Broker) Import(ctx context.Context, call ImportCall) ([]Item, error) {
	size, err := b.checkImport(&call)
	if err != nil {
		return nil, err
	}
	content := func(i int) *Content { return &call.Items[i].Content }
	if err := b.checkWays(ctx, call.Namespace, call.Queue, len(call.Items), content); err != nil {
		return nil, err
	}
	q, err := b.pinOpen(ctx, call.Namespace, call.Queue)
	if err != nil {
		return nil, err
	}
	if err := b.checkWritable(ctx, q, call.Partition); err != nil {
		q.leaveOpen()
		return nil, err
	}
	items := b.importedItems(&call, q)
	fresh, err := b.withoutBuried(ctx, items)
	switch {
	case err != nil:
		q.leaveOpen()
	case len(fresh) == 0:
		q.leaveOpen()
	default:
		_, err = b.admit(ctx, q, ProduceGroup{Items: fresh}, burden{entries: len(fresh), bytes: size})
	}
	if err != nil {
		return nil, fmt.Errorf("import to %s: %w", call.Queue, err)
	}
	kept, err := b.readBack(ctx, items)
	if err != nil {
		// Not the store's own word, which says of the call that nothing was done.
		return nil, fmt.Errorf("import to %s: %w: the items are kept, but could not be read: %v", call.Queue, ErrUnknownOutcome, err)
	}
	return kept, nil
}

// checkImport judges what the caller says, and returns the size of it all.
func (b *Broker) checkImport(call *ImportCall) (size int, err error) {
	switch n := len(call.Items); {
	case n == 0:
		return 0, Invalid("items", "is empty; want 1 to %d items", DefaultMaxItems)
	case n > DefaultMaxItems:
		return 0, &TooLargeError{Field: "items", Limit: DefaultMaxItems, Unit: "items"}
	}
	for i := range call.Items {
		it := &call.Items[i]
		if err := b.checkImported(it); err != nil {
			return 0, atEntry("items", i, err)
		}
		size += it.Size()
	}
	if size > b.opts.MaxCallBytes {
		return 0, &TooLargeError{Field: "items", Limit: b.opts.MaxCallBytes, Unit: "bytes"}
	}
	return size, nil
}

func (b *Broker) checkImported(it *ImportItem) error {
	if err := b.checkContent(&it.Content, "payload", "id"); err != nil {
		return err
	}
	switch {
	case it.SourceID == "":
		return Invalid("id", "is missing; want the id that the item had, so that a repeat is harmless")
	case it.Attempts < 0 || it.Attempts > maxImportedAttempts:
		return Invalid("attempts", "is %d; want 0 to %d", it.Attempts, maxImportedAttempts)
	case it.MaxAttempts < -1:
		return Invalid("max_attempts", "is %d; want -1 for no limit, 0 for the queue's, or more", it.MaxAttempts)
	case it.ExpiresAt.IsZero():
	case !it.ExpiresAt.After(time.Unix(0, 0)):
		return Invalid(cmp.Or(it.ExpireField, "expire_deadline"), "is before the year 1970")
	case it.ExpiresAt.UTC().Year() > 9999:
		return Invalid(cmp.Or(it.ExpireField, "expire_deadline"), "is after the year 9999")
	}
	return checkDue(cmp.Or(it.DueField, "enqueue_at"), "", it.DueAt, 0)
}

func (b *Broker) importedItems(call *ImportCall, q *knownQueue) []NewItem {
	ttl := q.settings().ExpireTTL
	items := make([]NewItem, len(call.Items))
	for i := range call.Items {
		it := &call.Items[i]
		items[i] = NewItem{
			Content: it.Content, ID: importedID(q.number, it.SourceID), Queue: q.number,
			DueAt: it.DueAt, ExpiresAt: it.ExpiresAt, ExpireTTL: ttl,
			Attempts: it.Attempts, MaxAttempts: it.MaxAttempts,
		}
	}
	b.place(q, items)
	for i := range items {
		if call.Partition != 0 && items[i].OrderingKey == "" {
			items[i].Partition = call.Partition
		}
	}
	return items
}

// importedID makes the id that an item with a source id has in a queue. Equal source
// ids have equal ids, so the store, which refuses to add what is there, knows the
// second of them on every node and without an index.
//
// It is laid out as any id. Its time is that of a source id that has one, so that items
// from another queue of ours keep their neighbours; others begin with 0. The rest, 74
// bits, are a hash.
func importedID(q Number, sourceID string) ID {
	hash := sha256.New()
	hash.Write([]byte("import"))
	hash.Write(binary.BigEndian.AppendUint64(nil, uint64(q)))
	hash.Write([]byte(sourceID))
	var id ID
	copy(id[:], hash.Sum(nil))
	var made [6]byte
	if source, err := ParseID(sourceID); err == nil && uuid.UUID(source).Version() == 7 {
		copy(made[:], source[:])
	}
	copy(id[:], made[:])
	id[6] = 7<<4 | id[6]&0x0f // version
	id[8] = 2<<6 | id[8]&0x3f // variant
	return id
}

// withoutBuried leaves out items that live in a dead-letter queue: were a second one of
// them buried as well, it would take the place of the first.
func (b *Broker) withoutBuried(ctx context.Context, items []NewItem) (fresh []NewItem, err error) {
	found, err := b.store.Find(ctx, idsOf(items), false)
	if err != nil {
		return nil, fmt.Errorf("find items: %w", err)
	}
	buried := map[ID]bool{}
	for i := range found {
		buried[found[i].ID] = buried[found[i].ID] || found[i].Queue != found[i].Home
	}
	for i := range items {
		if !buried[items[i].ID] {
			fresh = append(fresh, items[i])
		}
	}
	return fresh, nil
}

// idsOf returns the ids of items, each once.
func idsOf(items []NewItem) []ID {
	ids := make([]ID, len(items))
	for i := range items {
		ids[i] = items[i].ID
	}
	return distinct(ids)
}

// readBack returns items as the store has them, in order.
func (b *Broker) readBack(ctx context.Context, items []NewItem) ([]Item, error) {
	found, err := b.store.Find(ctx, idsOf(items), true)
	if err != nil {
		return nil, err
	}
	living := make(map[Key]*Item, len(found))
	buried := map[ID]*Item{}
	for i := range found {
		living[found[i].Key] = &found[i]
		if found[i].Queue != found[i].Home {
			buried[found[i].ID] = &found[i]
		}
	}
	kept := make([]Item, len(items))
	for i := range items {
		it := &items[i]
		key := Key{ID: it.ID, Queue: it.Queue, Home: it.Queue}
		if alive := living[key]; alive != nil {
			kept[i] = *alive
			continue
		}
		if first := buried[it.ID]; first != nil {
			kept[i] = *first
			continue
		}
		kept[i] = Item{
			Key: key, Content: it.Content, AvailableAt: it.DueAt, ExpiresAt: it.ExpiresAt,
			Attempts: it.Attempts, MaxAttempts: it.MaxAttempts,
		}
	}
	return kept, nil
}
