//go:build unix

package webhooks

import (
	"errors"
	"syscall"
)

// silentSocket says whether nothing waits in a socket: no byte, no end, no error. Its
// read deadline must not have passed.
func silentSocket(socket syscall.RawConn) bool {
	silent := false
	err := socket.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		silent = errors.Is(err, syscall.EAGAIN)
		return true
	})
	return err == nil && silent
}
