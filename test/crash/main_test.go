package crash_test

import (
	"os"
	"testing"

	"github.com/posthaste-io/posthaste/storage/postgres/pgtest"
	"github.com/posthaste-io/posthaste/test/harness"
)

func TestMain(m *testing.M) {
	code := pgtest.Main(m)
	harness.Clean()
	os.Exit(code)
}
