package webhooks

import (
	"errors"
	"strconv"
	"testing"
)

func TestMemo_RemembersResultsAndNoErrors(t *testing.T) {
	t.Parallel()
	reads := map[string]int{}
	m := newMemo(func(text string) (int, error) {
		reads[text]++
		return strconv.Atoi(text)
	})
	for range 3 {
		if v, err := m.of("7"); v != 7 || err != nil {
			t.Errorf("got %d, %v", v, err)
		}
		if _, err := m.of("x"); !errors.Is(err, strconv.ErrSyntax) {
			t.Errorf("got %v", err)
		}
	}
	if reads["7"] != 1 || reads["x"] != 3 {
		t.Errorf("read %v times", reads)
	}
}

func TestMemo_IsBounded(t *testing.T) {
	t.Parallel()
	m := newMemo(strconv.Atoi)
	for i := range 3 * maxMemo {
		if v, err := m.of(strconv.Itoa(i)); v != i || err != nil {
			t.Fatalf("%d: got %d, %v", i, v, err)
		}
		if len(m.kept) > maxMemo {
			t.Fatalf("keeps %d", len(m.kept))
		}
	}
}
