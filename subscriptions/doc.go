// Package subscriptions knows who is pushed to: which endpoint drains which queue,
// under which policy, signed with which secrets.
//
// A queue has at most one subscription, since two would race for the same items
// instead of each seeing all of them. The rule rests on two documents: the
// subscription itself, kept under its name, and a claim, kept under its queue's
// name. Creation writes the subscription as pending, then the claim, makes the
// queue, and takes the pending mark off; each write is a compare-and-set. A pending
// document is invisible, and whoever meets one that stands in the way removes it by
// its revision, which makes its creator's last step lose. So a crash between the
// steps leaves nothing that a later creation cannot take over, and no clock decides
// who lives.
//
// A subscription on a topic has a queue of its own, named topic~subscription, which is
// made by its creation and deleted with it: the topic's items are copied into it. Creation
// enters it in the topic before the pending mark comes off, so that a subscription which
// is seen gets all; deletion takes it out of the topic first, then deletes the queue, and
// then the documents, so that it can be repeated, and the name is not free before that. A
// queue is told from a later one under its name by its number. A crash between the first
// steps of a creation leaves a queue that fills up for nobody: creating the subscription
// again takes it over, and deleting the topic with force or the queue ends it.
//
// A topic that is made of a queue takes the queue's subscription along, by one change of
// all documents that are concerned. The claim on the queue is left where it is, for nodes
// that do not know yet, and goes with the subscription.
//
// Secrets leave this package in two ways only: [Secret.Reveal], for who signs and
// authenticates with them, and sealed by a [Sealer], in a [Document].
package subscriptions
