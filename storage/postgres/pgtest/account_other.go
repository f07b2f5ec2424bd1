//go:build !linux

package pgtest

import "syscall"

// account is the user that servers run as: the one who runs the tests, since on
// this system nobody tests as root.
type account struct{}

func serverAccount() (*account, error) { return &account{}, nil }

func (*account) own(string) error { return nil }

func (*account) attributes() *syscall.SysProcAttr { return nil }
