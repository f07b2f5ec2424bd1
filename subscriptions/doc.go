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
// Secrets leave this package in two ways only: [Secret.Reveal], for who signs and
// authenticates with them, and sealed by a [Sealer], in a [Document].
package subscriptions
