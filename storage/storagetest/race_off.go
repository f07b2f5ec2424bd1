//go:build !race

package storagetest

const defaultSequences = 200
