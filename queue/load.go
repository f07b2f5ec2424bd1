package queue

// Load is what a broker has to do at this moment, in calls and over all queues.
type Load struct {
	Produces, Leases, Settles, Extends VerbLoad
}

// VerbLoad is about one verb.
type VerbLoad struct {
	// Waiting calls are not yet with the store; of leases, they are those that wait for
	// items. InFlight calls are.
	Waiting, InFlight int
}

// Load counts calls. It asks nothing of the store and is cheap.
func (b *Broker) Load() Load {
	var l Load
	l.Produces.Waiting, l.Produces.InFlight = b.produces.total()
	l.Leases.Waiting, l.Leases.InFlight = b.leases.total()
	l.Settles.Waiting, l.Settles.InFlight = b.settles.total()
	l.Extends.Waiting, l.Extends.InFlight = b.extends.total()
	return l
}
