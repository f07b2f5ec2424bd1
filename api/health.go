package api

import (
	"encoding/json"
	"net/http"
	"net/http/pprof"

	"github.com/go-chi/chi/v5"
)

// Check is one thing that must be well for the server to take work.
type Check struct {
	// Name is a word for programs: store.
	Name string
	// Err is nil while it is well. Its text is shown.
	Err error
	// Minor says that work is taken all the same: only /health shows it.
	Minor bool
}

// health is the answer of /health and, in short, of /readyz.
type health struct {
	// Status is ok, degraded, failing or stopping.
	Status  string `json:"status"`
	Version string `json:"version,omitempty"`
	// Durable says whether what was produced survives a crash.
	Durable *bool         `json:"durable,omitempty"`
	Checks  []healthCheck `json:"checks,omitempty"`
}

type healthCheck struct {
	Name  string `json:"name"`
	OK    bool   `json:"ok"`
	Error string `json:"error,omitempty"`
}

// healthRoutes answers probes, which have no keys. What the checks found, and which
// version this is, are told where nobody but operators asks, and to who has a key.
func (s *Server) healthRoutes(r chi.Router, trusted bool) {
	knows := func(x *exchange) bool {
		if trusted {
			return true
		}
		_, err := s.access.Identify(x.r)
		return err == nil
	}
	routes := map[string]func(*exchange){
		// Alive says only that requests are answered: whoever restarts what is not alive
		// would make a sick store worse.
		"/livez":  func(x *exchange) { x.health(http.StatusOK, health{Status: "ok"}) },
		"/readyz": func(x *exchange) { x.ready(false, knows(x)) },
		"/health": func(x *exchange) { x.ready(true, knows(x)) },
	}
	for path, f := range routes {
		h := s.exchange(path[1:], f)
		r.Get(path, h)
		r.Head(path, h)
	}
}

// ready answers 200 if the server takes work, and 503 otherwise. Who knows is told why.
func (x *exchange) ready(whole, knows bool) {
	answer, status := health{Status: "ok"}, http.StatusOK
	for _, c := range x.s.ready() {
		if c.Minor && !whole {
			continue
		}
		check := healthCheck{Name: c.Name, OK: c.Err == nil}
		if c.Err != nil && knows {
			check.Error = c.Err.Error()
		}
		switch {
		case c.Err != nil && !c.Minor:
			answer.Status, status = "failing", http.StatusServiceUnavailable
		case c.Err != nil && status == http.StatusOK:
			answer.Status = "degraded"
		}
		answer.Checks = append(answer.Checks, check)
	}
	if x.s.draining.Load() {
		answer.Status, status = "stopping", http.StatusServiceUnavailable
	}
	if whole && knows {
		answer.Version, answer.Durable = x.s.version, &x.s.durable
	}
	x.health(status, answer)
}

func (x *exchange) health(status int, h health) {
	x.quiet = true
	body, err := json.Marshal(h)
	if err != nil {
		x.fail(err)
		return
	}
	// Whoever cannot be answered is gone.
	_ = x.write(status, h.Status, "application/json", body, false)
}

// Admin is the handler of the admin listener, which only operators reach: health,
// metrics and profiles. It answers for loopback hosts alone.
func (s *Server) Admin() http.Handler {
	r := chi.NewRouter()
	r.Use(ownHost)
	s.healthRoutes(r, true)
	if s.metrics != nil {
		r.Method(http.MethodGet, "/metrics", s.metrics)
	}
	r.HandleFunc("/debug/pprof/*", pprof.Index)
	r.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	r.HandleFunc("/debug/pprof/profile", pprof.Profile)
	r.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	r.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return r
}
