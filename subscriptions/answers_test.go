package subscriptions

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

func TestService_AnswersForProducersAreASecondOldAtMost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, kit := setup(t)
		kit.others = []string{"outcomes"}
		o := kit.options()
		s, otherNode := New(o), New(o)
		ctx, ns := t.Context(), queue.DefaultNamespace
		want := func(what string, allowed bool, onDone string) {
			t.Helper()
			a, err := s.AllowsTarget(ctx, ns, "orders")
			q, err2 := s.OnDone(ctx, ns, "orders")
			if err != nil || err2 != nil || a != allowed || q != onDone {
				t.Errorf("%s: got %v, %q, %v, %v, want %v, %q", what, a, q, err, err2, allowed, onDone)
			}
		}
		want("not pushed", false, "")
		p := params("billing", "orders")
		p.AllowTarget, p.OnDone = new(true), new("outcomes")
		if _, err := s.Create(ctx, p); err != nil {
			t.Fatal(err)
		}
		want("created here", true, "outcomes")
		change := Change{AllowTarget: new(false), OnDone: new("")}
		if _, err := otherNode.Update(ctx, UpdateParams{Namespace: ns, Name: "billing", Change: change}); err != nil {
			t.Fatal(err)
		}
		want("changed there, just now", true, "outcomes")
		time.Sleep(answerAge)
		want("changed there, a second ago", false, "")
		if _, err := s.Update(ctx, UpdateParams{Namespace: ns, Name: "billing", Change: Change{AllowTarget: new(true)}}); err != nil {
			t.Fatal(err)
		}
		want("changed here", true, "")
		if err := s.Delete(ctx, ns, "billing"); err != nil {
			t.Fatal(err)
		}
		want("deleted here", false, "")
	})
}

func TestService_AnswersForProducersAreReadOnceInAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, kit := setup(t)
		reads := 0
		kit.claims.beforeGet = func() { reads++ }
		for range 100 {
			if _, err := s.OnDone(t.Context(), queue.DefaultNamespace, "orders"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(answerAge / 10)
		}
		if reads < 10 || reads > 20 {
			t.Errorf("%d reads in 10 s", reads)
		}
		for i := range maxAnswers + 10 {
			if _, err := s.OnDone(t.Context(), queue.DefaultNamespace, fmt.Sprint("q", i)); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(s.answers.known); n > maxAnswers {
			t.Errorf("%d answers are kept", n)
		}
	})
}

// What was read before a change may arrive after it.
func TestService_AnswerThatAChangeOvertookIsNotKept(t *testing.T) {
	t.Parallel()
	s, kit := setup(t)
	ctx, ns := t.Context(), queue.DefaultNamespace
	p := params("billing", "orders")
	if _, err := s.Create(ctx, p); err != nil {
		t.Fatal(err)
	}
	once := true
	kit.docs.afterGet = func() {
		if !once {
			return
		}
		once = false
		if _, err := s.Update(ctx, UpdateParams{Namespace: ns, Name: "billing", Change: Change{AllowTarget: new(true)}}); err != nil {
			t.Error(err)
		}
	}
	if got, err := s.AllowsTarget(ctx, ns, "orders"); err != nil || got {
		t.Errorf("the overtaken read: %v, %v", got, err)
	}
	if got, err := s.AllowsTarget(ctx, ns, "orders"); err != nil || !got {
		t.Errorf("after it: %v, %v", got, err)
	}
}
