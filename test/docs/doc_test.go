// Package docs_test does what README.md and docs/*.md tell their readers to do.
//
// Each page is walked from its top in a new directory, with the real program in PATH.
// Unless the first block that is run starts a server, `posthaste serve --dev` is running,
// as if in a terminal "server".
// What a block is checked by is said by its language:
//
//	sh           run; each command must end well, and no answer be a refusal
//	console      the lines behind $ are run, and must print the lines below them
//	text         what a terminal printed, if from= names one; else a drawing
//	go           compiled; what is no whole file is put into a function
//	py, python   compiled, or a file of examples/, which has a test that runs it
//	ts           a file of examples/, as above
//	json, yaml   parsed
//	mermaid      its first line is a kind of diagram
//
// Words behind the language say more:
//
//	terminal=a   sh: runs in a terminal of its own, to the end of the page or until
//	             another block or <!-- stop: a --> ends it as Ctrl-C would
//	until="x"    the reader goes on once that terminal shows x: "listening"
//	from=a       text: terminal a comes to show these lines
//	file=a       the block is saved under this name
//	refused      sh: answers may be refusals, which is the point
//	status=1     the last command ends with this status
//	skip="why"   not run, for this reason; TestPages_SkipLittle counts them
//
// In what is shown, ids, receipts, instants and fractions of seconds may differ, and …
// stands for any text, or alone on a line for any lines.
//
// Servers listen on their default ports: each page has a loopback address of its own,
// which takes the place of 127.0.0.1 in its blocks.
package docs_test

import (
	"os"
	"testing"

	"github.com/posthaste-io/posthaste/test/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }
