package cli

import (
	"fmt"
	"time"

	"github.com/schollz/progressbar/v3"
)

// progress is a bar on a terminal, and nothing elsewhere.
type progress struct {
	bar *progressbar.ProgressBar
}

// newProgress shows how much is done of size bytes; -1 is not known.
func newProgress(c *console, size int64) *progress {
	if !c.followed {
		return new(progress)
	}
	return &progress{progressbar.NewOptions64(size,
		progressbar.OptionSetWriter(c.err),
		progressbar.OptionSetWidth(30),
		progressbar.OptionShowBytes(true),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionSetRenderBlankState(true),
	)}
}

// add counts bytes that are done. That the bar cannot be drawn does not matter.
func (p *progress) add(bytes, items int) {
	if p.bar == nil {
		return
	}
	p.bar.Describe(fmt.Sprintf("%d items", items))
	_ = p.bar.Add(bytes)
}

// hide makes room for a line.
func (p *progress) hide() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}

// close takes the bar away.
func (p *progress) close() {
	if p.bar != nil {
		_ = p.bar.Exit()
		_ = p.bar.Clear()
	}
}
