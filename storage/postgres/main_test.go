package postgres_test

import (
	"os"
	"testing"

	"github.com/posthaste-io/posthaste/storage/postgres/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }
