//go:build linux

package deploy_test

import (
	"debug/elf"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/test/harness"
)

// built is the image as a directory.
type built struct {
	image
	dir string
}

// made is what the steps of the Dockerfile made, once for all tests.
var made struct {
	once sync.Once
	dir  string
	err  error
}

// runSteps runs steps by hand, on this machine in place of the builder's.
func runSteps(steps []string) {
	if made.dir, made.err = os.MkdirTemp("", "posthaste-image-"); made.err != nil {
		return
	}
	out := filepath.Join(made.dir, "out")
	for _, step := range steps {
		// Mounts are caches of the builder; what it makes goes to /out.
		script := strings.ReplaceAll(regexp.MustCompile(`--mount=\S+ `).ReplaceAllString(step, ""), "/out", out)
		cmd := exec.Command("sh", "-c", script)
		cmd.Dir = root
		if text, err := cmd.CombinedOutput(); err != nil {
			made.err = fmt.Errorf("RUN %s: %w\n%s", step, err, text)
			return
		}
	}
}

// buildImage makes the image as a directory of the test's own.
func buildImage(t *testing.T) built {
	t.Helper()
	d := parseDockerfile(t, read(t, root+"/deploy/Dockerfile"))
	if len(d.runs) == 0 || t.Failed() {
		t.FailNow()
	}
	made.once.Do(func() { runSteps(d.runs) })
	if made.err != nil {
		t.Fatal(made.err)
	}
	b := built{image: d.image, dir: t.TempDir()}
	if err := os.Chmod(b.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	places := strings.NewReplacer("/out/", made.dir+"/out/", "/usr/local/go/", strings.TrimSpace(string(goroot))+"/")
	for _, c := range b.copies {
		from := places.Replace(c.from)
		if _, err := os.Stat(from); os.IsNotExist(err) && strings.HasPrefix(c.from, "/etc/") {
			t.Logf("this machine has no %s; the builder's image has", from)
			continue
		}
		b.copy(t, from, c)
	}
	return b
}

// copy does what COPY does, for a file or an empty directory.
func (b built) copy(t *testing.T, from string, c imageCopy) {
	t.Helper()
	to := filepath.Join(b.dir, c.to)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(from)
	if err != nil {
		t.Fatal(err)
	}
	if info.IsDir() {
		err = os.Mkdir(to, info.Mode())
	} else {
		var content []byte
		if content, err = os.ReadFile(from); err == nil {
			// A process that is forked meanwhile would hold the program open for writing, and
			// nobody could run it then.
			syscall.ForkLock.RLock()
			err = os.WriteFile(to, content, info.Mode())
			syscall.ForkLock.RUnlock()
		}
	}
	if err == nil && c.owner != "" && os.Getuid() == 0 {
		user, group := ids(t, c.owner)
		err = os.Chown(to, user, group)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func ids(t *testing.T, owner string) (user, group int) {
	t.Helper()
	if _, err := fmt.Sscanf(owner, "%d:%d", &user, &group); err != nil {
		t.Fatalf("owner %q is not two numbers: %v", owner, err)
	}
	return user, group
}

func TestImage_HasAStaticProgramAndNoRoot(t *testing.T) {
	t.Parallel()
	b := buildImage(t)
	if b.base != "scratch" {
		t.Errorf("is from %q, want scratch", b.base)
	}
	if user, group := ids(t, b.user); user == 0 || group == 0 {
		t.Errorf("runs as %s", b.user)
	}
	program, err := elf.Open(filepath.Join(b.dir, b.entrypoint[0]))
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	for _, p := range program.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("the program has a segment %s: it is linked to what is not in the image", p.Type)
		}
	}
	for _, file := range []string{"zoneinfo.zip", "posthaste", "data"} {
		if _, err := os.Stat(filepath.Join(b.dir, file)); err != nil {
			t.Error(err)
		}
	}
	if !slices.Equal(b.volumes, []string{"/data"}) || b.workdir != "/data" {
		t.Errorf("volumes %v, working directory %s; want items to lie in /data", b.volumes, b.workdir)
	}
}

func TestImage_BuilderHasTheReleaseOfGoMod(t *testing.T) {
	t.Parallel()
	d := parseDockerfile(t, read(t, root+"/deploy/Dockerfile"))
	want := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, root+"/go.mod"))
	if want == nil || !strings.HasPrefix(d.builder, "golang:"+want[1]+"-") {
		t.Errorf("builds with %q, want golang:%s", d.builder, want)
	}
}

// What the build reads must not be left out of what Docker is sent.
func TestImage_ContextHasAllThatIsBuilt(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{if .Module.Main}}{{.ImportPath}} {{.EmbedFiles}}{{end}}{{end}}", "./cmd/posthaste")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(read(t, root+"/deploy/Dockerfile.dockerignore")) {
		folder, ok := strings.CutSuffix(strings.TrimSpace(line), "/")
		if !ok || strings.Contains(folder, "*") {
			continue
		}
		if strings.Contains(string(out), "posthaste-io/posthaste/"+folder+"/") || strings.Contains(string(out), "posthaste-io/posthaste/"+folder+" ") {
			t.Errorf("%s is left out, and the program needs it", folder)
		}
	}
	if !strings.Contains(string(out), "posthaste-io/posthaste/queue ") {
		t.Errorf("go list told of\n%s", out)
	}
}

// run runs a command in the image: nothing is there but it, not even an environment.
func (b built) run(t *testing.T, args ...string) (cmd *exec.Cmd, stderr *lockedBuffer) {
	t.Helper()
	user, group := ids(t, b.user)
	stderr = &lockedBuffer{}
	cmd = exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Stderr, cmd.Env = b.workdir, stderr, slices.Concat(b.env, []string{"POSTHASTE_ROOT_KEY=" + harness.Key})
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Chroot: b.dir, Credential: &syscall.Credential{Uid: uint32(user), Gid: uint32(group)}, Pdeathsig: syscall.SIGKILL,
	}
	return cmd, stderr
}

func TestImage_ServesAsNobodyInAnEmptyRoot(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root may change the root of a process")
	}
	runtime.LockOSThread() // the server's life hangs on the thread that starts it
	b := buildImage(t)
	addresses := []string{"--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--log-format", "json"}
	server, log := b.run(t, slices.Concat(b.entrypoint, b.cmd, addresses)...)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	var line struct{ Admin string }
	eventually(t, "listening", func() bool {
		for text := range strings.Lines(log.String()) {
			if strings.Contains(text, `"msg":"listening"`) && json.Unmarshal([]byte(text), &line) == nil {
				return true
			}
		}
		return false
	})

	// The health check asks the admin listener, by the port that it has in containers.
	if !slices.Contains(b.health, "http://127.0.0.1:2320") {
		t.Fatalf("the health check is %v", b.health)
	}
	health := slices.Clone(b.health)
	health[slices.Index(health, "http://127.0.0.1:2320")] = "http://" + line.Admin
	probe, said := b.run(t, health...)
	if err := probe.Run(); err != nil {
		t.Errorf("health check: %v: %s", err, said)
	}

	if err := server.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("ended with %v\n%s", err, log)
		}
	case <-time.After(30 * time.Second):
		_ = server.Process.Kill()
		t.Fatal("does not stop")
	}
	probe, _ = b.run(t, health...)
	if err := probe.Run(); err == nil || probe.ProcessState.ExitCode() != 1 {
		t.Errorf("health check of a server that has ended: %v, want exit code 1", err)
	}
	kept := 0
	err := filepath.WalkDir(filepath.Join(b.dir, "data"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		kept++
		info, err := e.Info()
		if owner := strconv.Itoa(int(info.Sys().(*syscall.Stat_t).Uid)); err == nil && !strings.HasPrefix(b.user, owner+":") {
			t.Errorf("%s belongs to %s", path, owner)
		}
		return err
	})
	if err != nil || kept == 0 {
		t.Errorf("%d files in /data, %v; want the store there", kept, err)
	}
}

// Without TLS, and nobody having said that it is not needed, the image lets nobody in.
func TestImage_A04_RefusesToServeInTheClear(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root may change the root of a process")
	}
	b := buildImage(t)
	server, log := b.run(t, slices.Concat(b.entrypoint, b.cmd)...)
	err := server.Run()
	if server.ProcessState.ExitCode() != 2 || !strings.Contains(log.String(), "--allow-plaintext") {
		t.Errorf("got %v: %s; want exit code 2 and what to do", err, log)
	}
}
