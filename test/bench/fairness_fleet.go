package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

// fleet is many endpoints in this process: it knows when an item was acknowledged, and so
// can tell how long after that it came.
type fleet struct {
	healthy  []string
	hangsURL string
	dead     []string

	server *http.Server
	ended  chan error
	serves int
	// refusing are the sockets of the dead.
	refusing []int
	hanging  hanging
	flight   atomic.Pointer[fairFlight]
	// numbered is how many items were given a number.
	numbered int
}

// fairFlight is the items of one phase, by their number in it. Times are nanoseconds since
// it began; 0 is not yet.
type fairFlight struct {
	began                 time.Time
	first                 int
	acknowledged, arrived []atomic.Int64
}

func openFleet(p fairPlan) (_ *fleet, err error) {
	f := &fleet{hanging: hanging{want: p.holds, hangs: make(chan struct{})}}
	f.server = &http.Server{Handler: http.HandlerFunc(f.take), ReadHeaderTimeout: 10 * time.Second}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.end())
		}
	}()
	// One more than are healthy: the last hangs.
	f.ended = make(chan error, p.endpoints)
	for range p.endpoints {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("fleet: %w", err)
		}
		f.healthy = append(f.healthy, "http://"+l.Addr().String())
		f.serves++
		go func() { f.ended <- f.server.Serve(l) }()
	}
	f.hangsURL = f.healthy[p.endpoints-1] + hangingPath
	f.healthy = f.healthy[:p.endpoints-1]
	for range p.dead {
		url, err := f.refuse()
		if err != nil {
			return nil, fmt.Errorf("fleet: %w", err)
		}
		f.dead = append(f.dead, url)
	}
	return f, nil
}

const hangingPath = "/hangs"

// refuse returns an endpoint that refuses connections: a port that is taken, so that
// nobody else gets it, and on which nobody listens.
func (f *fleet) refuse() (url string, err error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	f.refusing = append(f.refusing, fd)
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return "", err
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		return "", err
	}
	bound, ok := name.(*syscall.SockaddrInet4)
	if !ok {
		return "", fmt.Errorf("bound to %T", name)
	}
	return "http://127.0.0.1:" + strconv.Itoa(bound.Port), nil
}

func (f *fleet) end() error {
	err := f.server.Close()
	for range f.serves {
		<-f.ended
	}
	for _, fd := range f.refusing {
		err = errors.Join(err, syscall.Close(fd))
	}
	return err
}

// take answers a push, or never does.
func (f *fleet) take(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the server gave up
	}
	if r.URL.Path == hangingPath {
		f.hanging.take(r.Context())
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if flight := f.flight.Load(); flight != nil {
		flight.arrive(body, now)
	}
	w.WriteHeader(http.StatusNoContent)
}

// expect begins a flight of n items.
func (f *fleet) expect(n int) *fairFlight {
	flight := &fairFlight{
		began: time.Now(), first: f.numbered,
		acknowledged: make([]atomic.Int64, n), arrived: make([]atomic.Int64, n),
	}
	f.numbered += n
	f.flight.Store(flight)
	return flight
}

// numberSize is how long an item's number is in its payload, behind the stamp.
const numberSize = 10

// number writes the number of the flight's ith item.
func (f *fairFlight) number(to []byte, i int) {
	copy(to, fmt.Sprintf("%0*d", numberSize, f.first+i))
}

// arrive notes the first time that an item of the flight came.
func (f *fairFlight) arrive(payload []byte, at time.Time) {
	if len(payload) < stampSize+numberSize {
		return
	}
	i, err := strconv.Atoi(string(payload[stampSize : stampSize+numberSize]))
	if err != nil || i < f.first || i >= f.first+len(f.arrived) {
		return // of a flight before
	}
	f.arrived[i-f.first].CompareAndSwap(0, max(1, int64(at.Sub(f.began))))
}

// fairPatience is how long what was acknowledged is waited for. What has not come then is
// counted as if it came at that moment.
const fairPatience = 10 * time.Second

// took returns how long after its acknowledgement each item came, in milliseconds. One
// that came before its producer had read the answer took less than nothing.
func (f *fairFlight) took(ctx context.Context, patience time.Duration) []float64 {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for f.missing() && until(ctx, time.Now().Add(5*time.Millisecond)) {
	}
	now := int64(time.Since(f.began))
	took := make([]float64, 0, len(f.arrived))
	for i := range f.acknowledged {
		told, came := f.acknowledged[i].Load(), f.arrived[i].Load()
		if told == 0 {
			continue // not sent, or to a dead endpoint
		}
		if came == 0 {
			came = now
		}
		took = append(took, float64(came-told)/1e6)
	}
	return took
}

func (f *fairFlight) missing() bool {
	for i := range f.acknowledged {
		if f.acknowledged[i].Load() != 0 && f.arrived[i].Load() == 0 {
			return true
		}
	}
	return false
}
