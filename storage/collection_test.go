package storage_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

// plan is a value as domain packages store them.
type plan struct {
	Number queue.Number
	TTL    time.Duration
	At     time.Time
	Secret []byte
	Tags   map[string]string `json:",omitempty"`
}

// A domain package asks for a collection like this.
type plans interface {
	Get(ctx context.Context, ns queue.Namespace, name string) (plan, uint64, error)
	Put(ctx context.Context, ns queue.Namespace, name string, p plan, revision uint64, wakeAt time.Time, items ...queue.NewItem) (uint64, error)
	Delete(ctx context.Context, ns queue.Namespace, name string, revision uint64) error
	List(ctx context.Context, ns queue.Namespace, after string, limit int) ([]queue.Versioned[plan], error)
	Due(ctx context.Context, limit int) (queue.Due[plan], error)
	Revision(ctx context.Context, ns queue.Namespace, name string) (uint64, error)
	ListAll(ctx context.Context, ns queue.Namespace, after string, limit int) ([]queue.Versioned[plan], error)
}

var _ plans = (*storage.Collection[plan])(nil)

func setup(t *testing.T) (*storage.Collection[plan], *storagetest.Model, *storagetest.Clock) {
	t.Helper()
	clock := storagetest.NewClock()
	model := storagetest.NewModel(clock.Now)
	return storage.NewCollection[plan](model, "plan"), model, clock
}

func TestCollection_ReturnsWhatWasPut(t *testing.T) {
	t.Parallel()
	c, _, _ := setup(t)
	want := plan{
		Number: 1<<63 + 1, // A float would lose the last bit.
		TTL:    time.Minute,
		At:     storagetest.Start,
		Secret: []byte{0, 0xff, '"'},
		Tags:   map[string]string{"<a>": "é\n"},
	}
	revision, err := c.Put(t.Context(), 1, "daily", want, 0, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	got, stored, err := c.Get(t.Context(), 1, "daily")
	if err != nil || stored != revision || !reflect.DeepEqual(got, want) {
		t.Errorf("Get: got %+v, %d, %v, want %+v, %d", got, stored, err, want, revision)
	}
}

func TestCollection_KeepsKindsAndNamespacesApart(t *testing.T) {
	t.Parallel()
	c, model, _ := setup(t)
	other := storage.NewCollection[plan](model, "other")
	if _, err := c.Put(t.Context(), 1, "daily", plan{}, 0, time.Time{}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := other.Get(t.Context(), 1, "daily"); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("other kind: got %v, want ErrNotFound", err)
	}
	if _, _, err := c.Get(t.Context(), 2, "daily"); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("other namespace: got %v, want ErrNotFound", err)
	}
}

func TestCollection_PassesRevisionsAndTheirErrors(t *testing.T) {
	t.Parallel()
	c, _, _ := setup(t)
	first, err := c.Put(t.Context(), 1, "daily", plan{}, 0, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Put(t.Context(), 1, "daily", plan{}, 0, time.Time{})
	if !errors.Is(err, queue.ErrExists) || !strings.Contains(err.Error(), "plan daily") {
		t.Errorf("Put again: got %v, want ErrExists that names the plan", err)
	}
	if _, err := c.Put(t.Context(), 1, "daily", plan{TTL: 1}, first, time.Time{}); err != nil {
		t.Errorf("Put at its revision: %v", err)
	}
	if err := c.Delete(t.Context(), 1, "daily", first); !errors.Is(err, queue.ErrRevision) {
		t.Errorf("Delete at an old revision: got %v, want ErrRevision", err)
	}
	_, newest, err := c.Get(t.Context(), 1, "daily")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), 1, "daily", newest); err != nil {
		t.Errorf("Delete: %v", err)
	}
	if _, _, err := c.Get(t.Context(), 1, "daily"); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("Get after Delete: got %v, want ErrNotFound", err)
	}
}

func TestCollection_ListsByNameAndSaysWhatIsDue(t *testing.T) {
	t.Parallel()
	c, _, clock := setup(t)
	now := clock.Now()
	for name, wakeAt := range map[string]time.Time{
		"b": now.Add(2 * time.Minute), "a": now.Add(time.Minute), "c": {}, "d": now.Add(time.Hour),
	} {
		if _, err := c.Put(t.Context(), 3, name, plan{TTL: time.Duration(name[0])}, 0, wakeAt); err != nil {
			t.Fatal(err)
		}
	}
	listed, err := c.List(t.Context(), 3, "a", 2)
	if err != nil || len(listed) != 2 || listed[0].Name != "b" || listed[1].Name != "c" || listed[1].Value.TTL != 'c' {
		t.Errorf("List after a: got %+v, %v, want b and c", listed, err)
	}
	clock.Advance(2 * time.Minute)
	found, err := c.Due(t.Context(), 10)
	due := found.Values
	if err != nil || len(due) != 2 || due[0].Name != "a" || due[1].Name != "b" {
		t.Fatalf("Due: got %+v, %v, want a and b", found, err)
	}
	if want := now.Add(time.Minute); due[0].Namespace != 3 || due[0].Revision == 0 || !due[0].WakeAt.Equal(want) {
		t.Errorf("Due: got %+v, want namespace 3, a revision, wake at %v", due[0], want)
	}
	if next, at := now.Add(time.Hour), clock.Now(); !found.Next.Equal(next) || !found.Now.Equal(at) {
		t.Errorf("Due: next is %v at %v, want %v at %v", found.Next, found.Now, next, at)
	}
}

func TestCollection_PutInsertsItems(t *testing.T) {
	t.Parallel()
	c, model, _ := setup(t)
	item := queue.NewItem{ID: queue.NewID(), Queue: queue.NewNumber(1, 7)}
	if _, err := c.Put(t.Context(), 1, "daily", plan{}, 0, time.Time{}, item); err != nil {
		t.Fatal(err)
	}
	if found, err := model.Find(t.Context(), []queue.ID{item.ID}, true); err != nil || len(found) != 1 {
		t.Errorf("Find: got %d items, %v, want the one that Put brought", len(found), err)
	}
}

func TestCollection_RefusesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		stored []byte
		want   string
	}{
		"empty":          {nil, "the stored value is empty"},
		"another format": {[]byte("\x02{}"), "format 2, this release reads 1"},
		"no format":      {[]byte("{}"), "format 123"},
		"cut":            {[]byte("\x01{\"TTL\":"), "unexpected end"},
		"another type":   {[]byte("\x01{\"TTL\":\"1s\"}"), "cannot unmarshal"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, model, _ := setup(t)
			key := storage.DocumentKey{Kind: "plan", Namespace: 1, Name: "daily"}
			wakeAt := storagetest.Start
			if _, err := model.Put(t.Context(), storage.Document{DocumentKey: key, WakeAt: wakeAt, Value: test.stored}); err != nil {
				t.Fatal(err)
			}
			_, _, getErr := c.Get(t.Context(), 1, "daily")
			_, listErr := c.List(t.Context(), 1, "", 10)
			good, err := c.Put(t.Context(), 1, "good", plan{TTL: 1}, 0, wakeAt)
			if err != nil {
				t.Fatal(err)
			}
			due, err := c.Due(t.Context(), 10)
			if err != nil || len(due.Values) != 2 || due.Values[1].Revision != good || due.Values[1].Err != nil {
				t.Fatalf("Due: got %+v, %v, want one that cannot be read, and the good one", due, err)
			}
			all, err := c.ListAll(t.Context(), 1, "", 10)
			if err != nil || !reflect.DeepEqual(all, due.Values) && all[0].Err.Error() != due.Values[0].Err.Error() {
				t.Errorf("ListAll: got %+v, %v, want both", all, err)
			}
			dueErr := due.Values[0].Err
			for verb, err := range map[string]error{"Get": getErr, "List": listErr, "Due": dueErr} {
				if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "plan daily") {
					t.Errorf("%s: got %v, want %q and the name", verb, err, test.want)
				}
			}
			revision, err := c.Revision(t.Context(), 1, "daily")
			if err != nil || revision != due.Values[0].Revision {
				t.Errorf("Revision: got %d, %v, want %d", revision, err, due.Values[0].Revision)
			}
			if err := c.Delete(t.Context(), 1, "daily", revision); err != nil {
				t.Errorf("Delete: %v", err)
			}
		})
	}
}

func TestCollection_RefusesAValueOverTheLimit(t *testing.T) {
	t.Parallel()
	c, _, _ := setup(t)
	large := plan{Tags: map[string]string{"x": strings.Repeat("x", storage.MaxValue)}}
	_, err := c.Put(t.Context(), 1, "daily", large, 0, time.Time{})
	if tooLarge, ok := errors.AsType[*queue.TooLargeError](err); !ok || tooLarge.Limit != storage.MaxValue {
		t.Errorf("Put: got %v, want a TooLargeError", err)
	}
	if _, _, err := c.Get(t.Context(), 1, "daily"); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("Get: got %v, want ErrNotFound", err)
	}
}
