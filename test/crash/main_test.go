package crash_test

import (
	"os"
	"testing"

	"github.com/posthaste-io/posthaste/test/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }
