package webhooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// tokens is a token endpoint that numbers the tokens which it gives.
type tokens struct {
	url   string
	given atomic.Int32
	// answer replaces what a request for a token is answered by, if it is set.
	answer func(w http.ResponseWriter, r *http.Request)
}

func newTokens(t *testing.T) *tokens {
	t.Helper()
	to := &tokens{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := to.given.Add(1)
		if to.answer != nil {
			to.answer(w, r)
			return
		}
		giveToken(w, fmt.Sprintf("token-%d", n), 3600)
	}))
	t.Cleanup(server.Close)
	to.url = server.URL + "/token"
	return to
}

func giveToken(w http.ResponseWriter, token string, seconds any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	json.NewEncoder(w).Encode(map[string]any{"access_token": token, "token_type": "Bearer", "expires_in": seconds})
}

func (to *tokens) credentials(t *testing.T) *Credentials {
	t.Helper()
	return credentials(t, CredentialsConfig{OAuth2: &OAuth2Config{
		TokenURL: to.url, ClientID: "client:1", ClientSecret: "s e%cret", Scopes: []string{"push", "all"}, Audience: "https://api/",
	}})
}

func TestOAuth2_ATokenIsFetchedOnceAndAgainAfterA401(t *testing.T) {
	t.Parallel()
	to := newTokens(t)
	var asked *http.Request
	to.answer = func(w http.ResponseWriter, r *http.Request) {
		r.ParseForm()
		asked = r
		giveToken(w, fmt.Sprintf("token-%d", to.given.Load()), 3600)
	}
	status := http.StatusOK
	got := make(chan string, 1)
	e := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got <- r.Header.Get("Authorization")
		w.WriteHeader(status)
	}))
	t.Cleanup(e.Close)

	s := newTestSender(t)
	r := request(e.URL)
	r.Credentials = to.credentials(t)
	for _, step := range []struct{ status, want int }{{200, 1}, {500, 1}, {403, 1}, {401, 1}, {200, 2}, {200, 2}} {
		status = step.status
		if res := s.Send(t.Context(), r); res.Status != step.status {
			t.Fatalf("got %+v", res)
		}
		if auth := <-got; auth != fmt.Sprintf("Bearer token-%d", step.want) {
			t.Errorf("before a %d: got %q, want token %d", step.status, auth, step.want)
		}
	}
	id, secret, _ := asked.BasicAuth()
	if id != "client%3A1" || secret != "s+e%25cret" || asked.Method != "POST" ||
		asked.PostForm.Encode() != "audience=https%3A%2F%2Fapi%2F&grant_type=client_credentials&scope=push+all" {
		t.Errorf("asked as %q, %q with %q", id, secret, asked.PostForm.Encode())
	}
}

func TestOAuth2_AServerThatOnlyLooksIntoTheFormIsRemembered(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]func(w http.ResponseWriter){
		"401": func(w http.ResponseWriter) { w.WriteHeader(http.StatusUnauthorized) },
		"invalid_client": func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, `{"error":"invalid_client"}`)
		},
	} {
		to := newTokens(t)
		to.answer = func(w http.ResponseWriter, r *http.Request) {
			if _, _, inHeader := r.BasicAuth(); inHeader || r.PostFormValue("client_id") != "client:1" || r.PostFormValue("client_secret") != "s e%cret" {
				refuse(w)
				return
			}
			giveToken(w, "x", "1") // at once to be renewed, and written as a text
		}
		url, _ := capture(t)
		s := newTestSender(t)
		r := request(url)
		r.Credentials = to.credentials(t)
		want(t, s.Send(t.Context(), r), Delivered, 200, "")
		r.Credentials.oauth2.drop("Bearer x")
		want(t, s.Send(t.Context(), r), Delivered, 200, "")
		if n := to.given.Load(); n != 3 {
			t.Errorf("%s: asked %d times, want both ways, and then the one that worked", name, n)
		}
	}
}

func TestOAuth2_AttemptsThatComeTogetherShareOneFetch(t *testing.T) {
	t.Parallel()
	to := newTokens(t)
	go1 := make(chan struct{})
	to.answer = func(w http.ResponseWriter, _ *http.Request) {
		<-go1
		giveToken(w, "shared", 3600)
	}
	url, _ := capture(t)
	s := newTestSender(t)
	c := to.credentials(t)
	var running sync.WaitGroup
	for range 10 {
		running.Go(func() {
			r := request(url)
			r.Credentials = c
			if got := s.Send(t.Context(), r); got.Verdict != Delivered {
				t.Errorf("got %+v", got)
			}
		})
	}
	close(go1)
	running.Wait()
	if n := to.given.Load(); n != 1 {
		t.Errorf("%d tokens were fetched", n)
	}
}

func TestOAuth2_WhoWaitsForAFetchThatIsGivenUpFetchesItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &oauth2{}
		ctx, giveUp := context.WithCancel(t.Context())
		first := make(chan error)
		go func() {
			_, err := o.get(ctx, func(bool) (token, error) { <-ctx.Done(); return token{}, ctx.Err() })
			first <- err
		}()
		synctest.Wait()
		second := make(chan string)
		go func() {
			auth, _ := o.get(t.Context(), func(bool) (token, error) { return token{access: "own", life: time.Hour}, nil })
			second <- auth
		}()
		synctest.Wait()
		giveUp()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("the first: %v", err)
		}
		if auth := <-second; auth != "Bearer own" {
			t.Errorf("the second: %q", auth)
		}

		// One that fails for the server's reasons fails for all that wait.
		o.drop("Bearer own")
		release, failed := make(chan struct{}), errors.New("no")
		for range 3 {
			go func() {
				_, err := o.get(t.Context(), func(bool) (token, error) { <-release; return token{}, failed })
				first <- err
			}()
		}
		synctest.Wait()
		close(release)
		for range 3 {
			if err := <-first; err != failed {
				t.Errorf("got %v", err)
			}
		}
	})
}

func TestOAuth2_ATokenIsKeptUntilShortlyBeforeItsEnd(t *testing.T) {
	t.Parallel()
	for life, kept := range map[time.Duration]time.Duration{
		100 * time.Second: 90 * time.Second, time.Hour: time.Hour - tokenMargin, 1000 * time.Hour: maxTokenLife - tokenMargin,
	} {
		synctest.Test(t, func(t *testing.T) {
			o, fetched := &oauth2{}, 0
			get := func() int {
				o.get(t.Context(), func(bool) (token, error) { fetched++; return token{access: "x", life: life}, nil })
				return fetched
			}
			get()
			<-time.After(kept - time.Nanosecond)
			if n := get(); n != 1 {
				t.Errorf("life of %v: fetched again too early", life)
			}
			<-time.After(time.Nanosecond)
			if n := get(); n != 2 {
				t.Errorf("life of %v: not fetched again after %v", life, kept)
			}
		})
	}
	for text, want := range map[string]time.Duration{
		"3600": time.Hour, `"60"`: time.Minute, "1.5": 1500 * time.Millisecond, "1e99": maxTokenLife,
		"": defaultTokenLife, "0": defaultTokenLife, "-5": defaultTokenLife, `"soon"`: defaultTokenLife, "null": defaultTokenLife,
	} {
		if got := readLife(json.RawMessage(text)); got != want {
			t.Errorf("expires_in %q: got %v, want %v", text, got, want)
		}
	}
}

func TestOAuth2_ATokenEndpointThatFailsIsToldApartFromTheEndpoint(t *testing.T) {
	t.Parallel()
	const canary = "c4n4ry"
	endpoints := newTokens(t) // nobody is to reach it
	for name, tt := range map[string]struct {
		url    string
		answer func(w http.ResponseWriter, r *http.Request)
		words  string
	}{
		"refused": {url: "http://127.0.0.1:1/", words: "token endpoint: connection_refused: "},
		"no HTTP": {url: "http://" + answering(t, "SSH-2.0-"+canary+"\r\n").addr, words: "token endpoint: bad_response: malformed HTTP"},
		"500":     {answer: func(w http.ResponseWriter, _ *http.Request) { http.Error(w, canary, 500) }, words: "token endpoint: status 500"},
		"a code":  {answer: func(w http.ResponseWriter, _ *http.Request) { http.Error(w, `{"error":"invalid_scope"}`, 400) }, words: "status 400, invalid_scope"},
		"no code": {answer: func(w http.ResponseWriter, _ *http.Request) { http.Error(w, `{"error":"`+canary+`"}`, 400) }, words: "status 400"},
		"redirect": {answer: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, endpoints.url+canary, http.StatusTemporaryRedirect)
		}, words: "status 307"},
		"HTML": {answer: func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>"+canary) }, words: "is not JSON"},
		"no JSON": {answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, canary)
		}, words: "cannot be read"},
		"no token":   {answer: func(w http.ResponseWriter, _ *http.Request) { giveToken(w, "", 1) }, words: "no access_token"},
		"injection":  {answer: func(w http.ResponseWriter, _ *http.Request) { giveToken(w, canary+"\r\nX-Evil: 1", 1) }, words: "does not fit"},
		"huge token": {answer: func(w http.ResponseWriter, _ *http.Request) { giveToken(w, strings.Repeat("x", maxToken+1), 1) }, words: "does not fit"},
		"endless":    {answer: func(w http.ResponseWriter, _ *http.Request) { giveToken(w, strings.Repeat("x", maxTokenAnswer), 1) }, words: "longer than 65536"},
	} {
		to := newTokens(t)
		to.answer = tt.answer
		if tt.url != "" {
			to.url = tt.url
		}
		r := request(endpoints.url)
		r.Credentials = to.credentials(t)
		got := newTestSender(t).Send(t.Context(), r)
		want(t, got, Retryable, 0, ClassAuth)
		if !strings.Contains(got.Error, tt.words) || strings.Contains(got.Error, canary) {
			t.Errorf("%s: got %q, want %q in it", name, got.Error, tt.words)
		}
	}
	if n := endpoints.given.Load(); n != 0 {
		t.Errorf("the endpoint was asked %d times without a token", n)
	}
}

func TestN01_TheTokenEndpointIsReachedThroughTheGuard(t *testing.T) {
	t.Parallel()
	url, _ := capture(t)
	s, _ := newNamesSender(t, names{"metadata.test": {"169.254.169.254"}})
	for name, target := range map[string]string{"a name": "http://metadata.test/token", "an address": "http://10.0.0.1/token"} {
		r := request(url)
		r.Credentials = credentials(t, CredentialsConfig{OAuth2: &OAuth2Config{TokenURL: target, ClientID: "a", ClientSecret: "b"}})
		got := s.Send(t.Context(), r)
		want(t, got, Blocked, 0, ClassBlocked)
		if !strings.Contains(got.Error, "token endpoint") {
			t.Errorf("%s: got %q", name, got.Error)
		}
	}
}

func TestH02_ATokenEndpointThatHangsIsWithinTheAttemptsDeadline(t *testing.T) {
	t.Parallel()
	to := newTokens(t)
	to.answer = func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}
	url, _ := capture(t)
	r := request(url)
	r.Credentials, r.Timeout = to.credentials(t), quick
	started := time.Now()
	want(t, newTestSender(t).Send(t.Context(), r), Retryable, 0, ClassAuth)
	within(t, started, quick)

	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(quick, func() { cancel(errTest) })
	r.Timeout = 20 * time.Second
	want(t, newTestSender(t).Send(ctx, r), Aborted, 0, ClassCanceled)
}
