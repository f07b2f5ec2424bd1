package examples_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/posthaste-io/posthaste/api/client"
	"github.com/posthaste-io/posthaste/test/harness"
)

func TestWorker_CompletesWhatTheProducerMakes(t *testing.T) {
	t.Parallel()
	server, c := startServer(t)
	env := []string{"POSTHASTE_URL=" + server.URL, "POSTHASTE_KEY=" + harness.Key}
	worker := harness.Spawn(t, harness.Options{Program: example(t, "worker"), Env: env})

	var ids []string
	for i, duplicate := range []string{"false", "true"} {
		producer := harness.Spawn(t, harness.Options{Program: example(t, "producer"), Env: env})
		if code := producer.Wait(); code != 0 {
			t.Fatalf("the producer ended with code %d: %s", code, producer.Log())
		}
		out := producer.Stdout()
		if !strings.Contains(out, "the picture is completed: 400 by 300\n") {
			t.Errorf("run %d: the producer printed no result:\n%s", i+1, out)
		}
		got := regexp.MustCompile(`produced (\S+), duplicate: (\w+)`).FindAllStringSubmatch(out, -1)
		if len(got) != 2 || got[0][2] != "false" || got[1][2] != duplicate {
			t.Fatalf("run %d: got %v, want a new picture and a mail with duplicate: %s", i+1, got, duplicate)
		}
		ids = append(ids, got[0][1], got[1][1])
	}
	if ids[0] == ids[2] || ids[1] != ids[3] {
		t.Errorf("got items %v, want two pictures and one mail", ids)
	}

	// The mail service is busy the first time.
	items, err := c.WaitItem(t.Context(), ids[1], "shop", patience)
	if err != nil || items[0].State != "completed" || items[0].Deliveries != 2 {
		t.Errorf("mail: got %+v, %v, want it completed at the second delivery", items, err)
	}

	// What makes no sense is buried with the handler's words.
	for payload, reason := range map[string]string{`{"Width": -1}`: "-1 by 0 is no picture", `{"Width": `: "unexpected end of JSON input"} {
		produced, err := c.Produce(t.Context(), "shop", client.Item{Kind: "image.resize", Payload: []byte(payload)})
		if err != nil {
			t.Fatal(err)
		}
		items, err := c.WaitItem(t.Context(), produced[0].ItemID, "shop", patience)
		if err != nil || len(items) == 0 || items[0].State != "buried" || !strings.Contains(items[0].Message, reason) {
			t.Errorf("%s: got %+v, %v, want it buried for %q", payload, items, err, reason)
		}
	}

	worker.Stop()
	if s, err := c.Stats(t.Context(), "shop"); err != nil || s.Total != 0 {
		t.Errorf("the worker left %+v, %v", s, err)
	}
}

func TestExamples_SayWhatIsWrongWithTheKey(t *testing.T) {
	t.Parallel()
	server, _ := startServer(t)
	for _, name := range []string{"producer", "worker"} {
		p := harness.Spawn(t, harness.Options{Program: example(t, name), Env: []string{"POSTHASTE_URL=" + server.URL, "POSTHASTE_KEY="}})
		if code := p.Wait(); code != 1 || !strings.Contains(p.Log()+p.Stdout(), client.CodeUnauthenticated) {
			t.Errorf("%s without a key: got code %d: %s; want 1 and %s", name, code, p.Log()+p.Stdout(), client.CodeUnauthenticated)
		}
	}
}
