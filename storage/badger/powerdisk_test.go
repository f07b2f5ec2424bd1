//go:build linux

package badger_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// powerDisk is a file system in a file whose power can be cut: ext4 has a call that
// drops all that was not written to the device. What a device of its own would
// forget, since it was not told to flush, is still there afterwards.
type powerDisk struct {
	t       *testing.T
	image   string
	dir     string
	mounted bool
}

// newPowerDisk makes one, or skips the test on a machine that cannot have it.
func newPowerDisk(t *testing.T) *powerDisk {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root may mount a disk and cut its power")
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		t.Skipf("there are no loop devices: %v", err)
	}
	for _, tool := range []string{"mkfs.ext4", "mount", "umount"} {
		if _, err := exec.LookPath(tool); err != nil {
			lacking(t, err.Error())
		}
	}
	d := &powerDisk{t: t, image: filepath.Join(t.TempDir(), "disk"), dir: t.TempDir()}
	t.Cleanup(d.release)
	image, err := os.Create(d.image)
	if err != nil {
		t.Fatal(err)
	}
	if err := image.Truncate(2 << 30); err != nil {
		t.Fatal(err)
	}
	if err := image.Close(); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", d.image).CombinedOutput(); err != nil {
		t.Fatalf("make the file system: %v: %s", err, out)
	}
	if out, err := d.attach(); err != nil {
		t.Skip("root may not mount a disk in a file here: " + out)
	}
	d.unmount()
	return d
}

// lacking skips the test for want of a program, but not where all are installed. What a
// machine does not allow cannot be installed, and is always a reason to skip.
func lacking(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// attach lets mount choose the loop device, which goes away with the mount.
func (d *powerDisk) attach() (said string, err error) {
	out, err := exec.Command("mount", "-o", "loop", "-t", "ext4", d.image, d.dir).CombinedOutput()
	d.mounted = err == nil
	return strings.TrimSpace(string(out)), err
}

// mount brings the disk back, from nothing but what its device has.
func (d *powerDisk) mount() {
	d.t.Helper()
	if out, err := d.attach(); err != nil {
		d.t.Fatalf("mount: %v: %s", err, out)
	}
}

// The call and its argument are ext4's.
const (
	ext4Shutdown    = 0x8004587d // _IOR('X', 125, __u32)
	dropWithoutSync = 2          // EXT4_GOING_FLAGS_NOLOGFLUSH
)

func (d *powerDisk) cut() {
	d.t.Helper()
	dir, err := os.Open(d.dir)
	if err != nil {
		d.t.Fatal(err)
	}
	how := uint32(dropWithoutSync)
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, dir.Fd(), ext4Shutdown, uintptr(unsafe.Pointer(&how)))
	if errno != 0 {
		d.t.Fatalf("cut the power: %v", errno)
	}
	if err := dir.Close(); err != nil {
		d.t.Fatal(err)
	}
}

// unmount waits until the kernel has let go of a process that was killed.
func (d *powerDisk) unmount() {
	d.t.Helper()
	waitFor(d.t, "the disk is unmounted", func() bool { return exec.Command("umount", d.dir).Run() == nil })
	d.mounted = false
}

// release unmounts what a failed test left, sooner or later.
func (d *powerDisk) release() {
	if !d.mounted {
		return
	}
	deadline := time.Now().Add(5 * time.Second)
	for syscall.Unmount(d.dir, 0) != nil {
		if time.Now().After(deadline) {
			_ = syscall.Unmount(d.dir, syscall.MNT_DETACH)
			return
		}
	}
}

// tables is how many tables were ever written, from the highest number of one.
func (d *powerDisk) tables() int {
	names, err := filepath.Glob(filepath.Join(d.dir, "*.sst"))
	if err != nil || len(names) == 0 {
		return 0
	}
	n := 0
	for _, digit := range strings.TrimSuffix(filepath.Base(names[len(names)-1]), ".sst") {
		n = n*10 + int(digit-'0')
	}
	return n
}
