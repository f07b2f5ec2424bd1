// Package wireproto reads and writes wire messages as protobuf, strictly.
//
// Before the protobuf library reads a message, one pass over its bytes refuses what
// that library would take in silence, or only refuse without saying where:
//
//   - A field number that the message does not have is refused, within other messages
//     too: a number cannot tell a mistake from a field of a later release.
//   - So are a wrong wire type, groups, text that is not UTF-8, numbers out of range,
//     a bool that is neither 0 nor 1, and a double that is no number. An instant is
//     within the years 1 to 9999.
//   - A message ends where its bytes end.
//
// A field given twice is what all readers of protobuf make of it: the later value
// stands, messages are merged, and so is a map's key; two messages one behind the
// other are one. Lists of numbers may be packed or not. A list without entries cannot
// be told from one that was left out, so an update cannot empty one: JSON can.
//
// How deep a message can nest is bounded by the messages, which have no recursion;
// how much it can make of little is bounded by [MaxList] and [MaxFields], which are
// judged before anything is allocated.
package wireproto

// Bounds of one message. A call of 1,000 items with every field set and some
// headers each stays below them; a body of nothing but empty items does not.
const (
	// MaxList is how many entries a list or a map may have in one message.
	MaxList = 1_000
	// MaxFields is how many fields a message may have, with those of the messages
	// within it. Each entry of a list counts, unless it is packed.
	MaxFields = 50_000
)
