package deploy_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/jackc/pgx/v5/pgconn"
)

// secrets are what a user has in .env.
var secrets = types.Mapping{"POSTHASTE_ROOT_KEY": "key-of-the-test", "POSTGRES_PASSWORD": "password-of-the-test", "POSTHASTE_ENCRYPTION_KEY": "encryption-key-of-the-test"}

// load reads a compose file as Compose does: by its schema, with variables put in, and
// with all that one part says of another.
func load(ctx context.Context, file string, env types.Mapping) (*types.Project, error) {
	path, err := filepath.Abs(root + "/deploy/" + file)
	if err != nil {
		return nil, err
	}
	return loader.LoadWithContext(ctx, types.ConfigDetails{
		WorkingDir: filepath.Dir(path), ConfigFiles: []types.ConfigFile{{Filename: path}}, Environment: env,
	})
}

func TestCompose_FilesAreTakenByCompose(t *testing.T) {
	t.Parallel()
	for file, replicas := range map[string]int{"compose.yaml": 1, "compose.postgres.yaml": 3} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			project, err := load(t.Context(), file, secrets)
			if err != nil {
				t.Fatal(err)
			}
			s, err := project.GetService("posthaste")
			if err != nil {
				t.Fatal(err)
			}
			if got := s.GetScale(); got != replicas {
				t.Errorf("%d nodes, want %d", got, replicas)
			}
			if _, err := os.Stat(filepath.Join(s.Build.Context, s.Build.Dockerfile)); err != nil {
				t.Error(err)
			}
			if key := s.Environment["POSTHASTE_ROOT_KEY"]; key == nil || *key != secrets["POSTHASTE_ROOT_KEY"] {
				t.Errorf("the key does not arrive: %v", key)
			}
			if s.StopGracePeriod == nil || time.Duration(*s.StopGracePeriod) < 20*time.Second {
				t.Errorf("is killed after %v, before it has stopped", s.StopGracePeriod)
			}
			if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || s.Privileged {
				t.Error("may more than it has to")
			}
			for _, port := range s.Ports {
				if port.HostIP != "127.0.0.1" {
					t.Errorf("port %s is published to %q, in the clear", port.Published, port.HostIP)
				}
			}
		})
	}
}

func TestCompose_NodesShareADatabaseThatKeepsItsData(t *testing.T) {
	t.Parallel()
	project, err := load(t.Context(), "compose.postgres.yaml", secrets)
	if err != nil {
		t.Fatal(err)
	}
	node, err := project.GetService("posthaste")
	if err != nil {
		t.Fatal(err)
	}
	database, err := project.GetService("postgres")
	if err != nil {
		t.Fatal(err)
	}
	if *node.Environment["PGPASSWORD"] != *database.Environment["POSTGRES_PASSWORD"] {
		t.Error("nodes have another password than the database")
	}
	if strings.Contains(*node.Environment["POSTHASTE_STORE"], ":"+secrets["POSTGRES_PASSWORD"]) {
		t.Error("the password is in the URL")
	}
	if node.DependsOn["postgres"].Condition != types.ServiceConditionHealthy || database.HealthCheck == nil {
		t.Error("nodes do not wait for the database")
	}
	if len(database.Volumes) != 1 || database.Volumes[0].Type != types.VolumeTypeVolume || len(database.Ports) > 0 {
		t.Errorf("the database has volumes %v and ports %v", database.Volumes, database.Ports)
	}
	for i, port := range node.Ports {
		if port.Published != "2319-2321" || port.Target != 2319 {
			t.Errorf("port %d: %+v, want one for each node", i, port)
		}
	}
}

// The driver is what decides whether a URL without a password has one.
func TestCompose_DriverTakesThePasswordFromTheEnvironment(t *testing.T) {
	project, err := load(t.Context(), "compose.postgres.yaml", secrets)
	if err != nil {
		t.Fatal(err)
	}
	env := project.Services["posthaste"].Environment
	t.Setenv("PGPASSWORD", *env["PGPASSWORD"])
	c, err := pgconn.ParseConfig(*env["POSTHASTE_STORE"])
	if err != nil || c.Password != secrets["POSTGRES_PASSWORD"] || c.Host != "postgres" || c.User != "posthaste" || c.Database != "posthaste" {
		t.Errorf("got %s@%s/%s, %v, want the service postgres and its password", c.User, c.Host, c.Database, err)
	}
}

// A file without its secrets must not start something open.
func TestCompose_SecretsAreAskedFor(t *testing.T) {
	t.Parallel()
	for file, names := range map[string][]string{
		"compose.yaml":          {"POSTHASTE_ROOT_KEY"},
		"compose.postgres.yaml": {"POSTHASTE_ROOT_KEY", "POSTHASTE_ENCRYPTION_KEY", "POSTGRES_PASSWORD"},
	} {
		for _, name := range names {
			env := types.Mapping{}
			for other, value := range secrets {
				env[other] = value
			}
			env[name] = "" // as env.example has it
			if _, err := load(t.Context(), file, env); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s without %s: got %v, want an error that names it", file, name, err)
			}
		}
		for _, name := range names {
			if !regexp.MustCompile(`(?m)^` + name + `=$`).MatchString(read(t, root+"/deploy/env.example")) {
				t.Errorf("env.example lacks an empty %s", name)
			}
		}
	}
}
