// Package wirejson reads and writes wire messages as JSON, strictly.
//
// Reading goes over the bytes once, straight into the message: no tree is built,
// a field that the message does not have is refused where it starts, and so is
// everything that two readers could understand in two ways. In particular:
//
//   - Names are case-sensitive: snake_case, or its camelCase spelling. A field
//     given twice, in whichever spelling, is refused.
//   - Text is valid UTF-8 and has no lone surrogates. Nothing follows the message.
//   - int32 is a whole number in range, written as one: no 1.0, no 1e3, no "1".
//   - bytes are standard base64, padded or not; instants are RFC 3339 with an
//     offset. null is no value of any field.
//
// How deep a text can nest is bounded by the messages, which have no recursion;
// how much it can make of little is bounded by [MaxList] and [MaxTokens].
//
// Writing gives numbers, bools and lists always; texts, bytes, maps, instants and
// messages only if they are set.
package wirejson

// Bounds of one message. A call of 1,000 items with every field set and some
// headers each stays below them; a body of nothing but {} does not.
const (
	// MaxList is how many entries a list may have.
	MaxList = 1_000
	// MaxTokens is how many names and values a message may have.
	MaxTokens = 50_000
)
