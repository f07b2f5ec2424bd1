package harness

import (
	"bytes"
	"strings"
	"testing"
)

func TestOutput_KeepsHeadAndTailOfALongLog(t *testing.T) {
	t.Parallel()
	o := newOutput()
	more := o.more()
	write := func(p []byte) {
		if n, err := o.Write(p); n != len(p) || err != nil {
			t.Fatalf("wrote %d of %d: %v", n, len(p), err)
		}
	}
	write([]byte("first\n"))
	select {
	case <-more:
	default:
		t.Error("nobody was told of the write")
	}
	if got := o.String(); got != "first\n" {
		t.Errorf("got %q", got)
	}
	line := append(bytes.Repeat([]byte("x"), 99_999), '\n')
	for range 60 {
		write(line)
	}
	write([]byte("last\n"))
	got := o.String()
	if !strings.HasPrefix(got, "first\n") || !strings.HasSuffix(got, "x\nlast\n") {
		t.Errorf("head or tail is missing: %.20q … %q", got, got[len(got)-20:])
	}
	if len(got) > 4*maxOutput {
		t.Errorf("kept %d bytes of 6 MB, want them bounded", len(got))
	}
}
