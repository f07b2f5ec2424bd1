package queue

import "strings"

// MaxName bounds the length of a name, in characters.
const MaxName = 200

// DeadSuffix ends the names of dead-letter queues that the system makes.
const DeadSuffix = "~dead"

// maxReference is as long as the dead-letter queue of a subscription on a topic is at most.
const maxReference = 2*MaxName + len("~") + len(DeadSuffix)

// CheckName judges a name that a client wants to give to a queue, topic,
// subscription, schedule or namespace; field is the path for the error.
func CheckName(field, name string) error {
	switch {
	case name == "":
		return Invalid(field, "is missing; want 1 to %d characters of A-Z a-z 0-9 . _ -", MaxName)
	case len(name) > MaxName:
		return Invalid(field, "is longer than %d characters", MaxName)
	case strings.Contains(name, "~"):
		return Invalid(field, "contains ~, which is kept for names that the system makes")
	case strings.Contains(name, ".."):
		return Invalid(field, "contains two dots in a row")
	case !isAlnum(name[0]):
		return Invalid(field, "must start with a letter or a digit")
	}
	for i := 0; i < len(name); i++ {
		if c := name[i]; !isAlnum(c) && c != '.' && c != '_' && c != '-' {
			return Invalid(field, "has %q at %d; want only A-Z a-z 0-9 . _ -", c, i)
		}
	}
	return nil
}

// CheckReference judges a name that refers to something that exists, which may
// be one that the system made: orders~dead.
func CheckReference(field, name string) error {
	base, suffix, made := strings.Cut(name, "~")
	if err := CheckName(field, base); err != nil {
		return err
	}
	if len(name) > maxReference {
		return Invalid(field, "is longer than %d characters", maxReference)
	}
	if made {
		// A subscription's queue on a topic has a dead-letter queue: orders~billing~dead.
		return CheckName(field, strings.TrimSuffix(suffix, DeadSuffix))
	}
	return nil
}

func isAlnum(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
