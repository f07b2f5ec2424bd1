//go:build !linux

package badger

import "os"

func datasync(file *os.File) error { return file.Sync() }
