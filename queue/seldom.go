package queue

import (
	"sync"
	"time"
)

const (
	// warnAgain is how long what was warned of is not warned of again.
	warnAgain = time.Hour
	// maxWarned bounds what is remembered; clients choose the names.
	maxWarned = 1000
)

// seldom keeps the same warning from filling the log. The zero value is ready; it may be used
// concurrently.
type seldom struct {
	mu     sync.Mutex
	warned map[string]time.Time
}

// may says whether it is time to warn of something, and takes it that this is done.
func (s *seldom) may(warn string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, warned := s.warned[warn]; warned && time.Since(at) < warnAgain {
		return false
	}
	if len(s.warned) >= maxWarned || s.warned == nil {
		s.warned = map[string]time.Time{}
	}
	s.warned[warn] = time.Now()
	return true
}
