package main

import (
	"syscall"
	"time"

	"github.com/posthaste-io/posthaste/api"
	"github.com/posthaste-io/posthaste/queue"
)

// limitFlags bound what the server takes on.
type limitFlags struct {
	MaxPushes       int           `default:"1024" env:"POSTHASTE_MAX_PUSHES" help:"Most requests to endpoints at one time, over all subscriptions."`
	MaxItems        int           `default:"1000" env:"POSTHASTE_MAX_ITEMS" help:"Most items or receipts of one call."`
	MaxPayload      byteSize      `default:"1MB" env:"POSTHASTE_MAX_PAYLOAD" help:"Largest payload of an item, 1MB at most."`
	MaxCall         byteSize      `default:"5MB" env:"POSTHASTE_MAX_CALL" help:"Largest call that carries items, 256kB to 8MB."`
	MaxBodyMemory   byteSize      `default:"256MiB" env:"POSTHASTE_MAX_BODY_MEMORY" help:"Most memory for the bodies of requests that are being read or worked on, twice --max-call at least; beyond it calls are refused with 429. A quarter of it is kept for calls that bring no items."`
	MaxAnswerMemory byteSize      `default:"256MiB" env:"POSTHASTE_MAX_ANSWER_MEMORY" help:"Most memory for answers with items that clients have not read yet, 160MB at least; beyond it leases and lists are refused with 429."`
	MaxConnections  int           `env:"POSTHASTE_MAX_CONNECTIONS" placeholder:"N" help:"Most connections to the API at one time; what is beyond them waits to be accepted. Default 10000, or half of the files that the process may open, whichever is less."`
	MaxWaiting      int           `default:"10000" env:"POSTHASTE_MAX_WAITING" help:"Most calls of one kind that wait for the store; beyond it they are refused with 429. One queue may have as many as there is still room for, which is half of them."`
	MaxPolls        int           `default:"1000" env:"POSTHASTE_MAX_POLLS" help:"Most leases that wait for items on one queue; beyond it they are refused with 429."`
	KeepRecords     time.Duration `default:"72h" env:"POSTHASTE_KEEP_RECORDS" help:"How long records of attempts and endings are kept."`
}

const (
	// What the stores can take: one item, and one call.
	maxPayload = 1_000_000
	maxCall    = 8_000_000
	// minCall is what calls without items may have. A call that settles as many
	// receipts as one may lease has to fit.
	minCall = api.DefaultCallBytes
	// minAnswers lets the largest answer pass that a lease may ask for, which takes
	// twice its size.
	minAnswers = 160_000_000
)

// check judges the flags; its errors are [usageError].
func (l *limitFlags) check() error {
	for _, count := range []struct {
		flag  string
		n, in int
	}{
		{"--max-pushes", l.MaxPushes, 100_000},
		{"--max-items", l.MaxItems, 1000},
		{"--max-waiting", l.MaxWaiting, 1_000_000},
		{"--max-polls", l.MaxPolls, 1_000_000},
	} {
		if count.n < 1 || count.n > count.in {
			return usagef("%s %d: want 1 to %d", count.flag, count.n, count.in)
		}
	}
	switch {
	case l.MaxPayload < 1 || l.MaxPayload > maxPayload:
		return usagef("--max-payload %d: want 1 to %d bytes", l.MaxPayload, maxPayload)
	case l.MaxCall < minCall || l.MaxCall < l.MaxPayload || l.MaxCall > maxCall:
		return usagef("--max-call %d: want %d bytes and --max-payload at least, %d at most", l.MaxCall, minCall, maxCall)
	case l.MaxBodyMemory < 2*l.MaxCall:
		return usagef("--max-body-memory %d: want twice --max-call at least", l.MaxBodyMemory)
	case l.MaxAnswerMemory < minAnswers:
		return usagef("--max-answer-memory %d: want %d at least", l.MaxAnswerMemory, minAnswers)
	case l.MaxConnections < 0 || l.MaxConnections > 1_000_000:
		return usagef("--max-connections %d: want 1 to 1000000", l.MaxConnections)
	case l.KeepRecords < time.Minute:
		return usagef("--keep-records %s: want a minute at least", l.KeepRecords)
	}
	return nil
}

// connections is how many connections the API may have. The other half of the files is
// for pushes and for the store.
func (l *limitFlags) connections() int {
	if l.MaxConnections > 0 {
		return l.MaxConnections
	}
	const most = 10_000
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return most // a system that cannot say has no bound that we could keep
	}
	return int(max(min(files.Cur/2, most), 1))
}

// broker adds the limits to a broker's options. MaxItems is not among them: callers are
// bounded by it, and what pushes and sweeps is not.
func (l *limitFlags) broker(o queue.Options) queue.Options {
	o.MaxPayload, o.MaxCallBytes = int(l.MaxPayload), int(l.MaxCall)
	o.MaxWaiting, o.MaxLeasesWaiting = l.MaxWaiting, l.MaxPolls
	o.KeepRecords = l.KeepRecords
	return o
}

// api returns the limits of requests.
func (l *limitFlags) api() api.Limits {
	return api.Limits{
		Items: l.MaxItems, ItemCall: int64(l.MaxCall), Payload: int64(l.MaxPayload),
		Bodies: int64(l.MaxBodyMemory), Answers: int64(l.MaxAnswerMemory),
	}
}
