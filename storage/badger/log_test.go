package badger

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/dgraph-io/badger/v4"
)

// The text is Badger's own, for a sync whose error it does not return.
func TestB03_RefusedSyncOfTheValueLogIsAFailure(t *testing.T) {
	t.Parallel()
	var logger badger.Logger = &bridge{log: slog.New(slog.DiscardHandler)}
	b := logger.(*bridge)
	logger.Errorf("While forcing compaction on level 0: %v", errors.New("no space"))
	if b.err() != nil {
		t.Errorf("another error: got %v, want none", b.err())
	}
	logger.Errorf("Error while curlf sync: %v\n", errors.New("input/output error"))
	if b.err() == nil {
		t.Error("a refused sync: got no error")
	}
}
