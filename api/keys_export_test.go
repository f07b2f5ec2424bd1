package api

// What an address may send of wrong keys.
const (
	GuessBurst    = guessBurst
	GuessInterval = guessInterval
)
