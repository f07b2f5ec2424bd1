package api

import "github.com/posthaste-io/posthaste/api/wirejson"

// What the interface names and this release does not have. It is refused as
// not_supported, so that nobody believes that it works. A release that brings one
// takes it out here.

// laterFields are fields by the message that will have them.
var laterFields = wirejson.Later{
	"posthaste.v1.QueuesListRequest": {"namespace"},
	"posthaste.v1.QueueInfo":         {"namespace", "retry", "storage", "quotas"},
}

// laterMethods are calls.
var laterMethods = []string{
	"namespaces.create", "namespaces.list", "namespaces.info", "namespaces.update", "namespaces.delete",
	"apikeys.create", "apikeys.list", "apikeys.info", "apikeys.update", "apikeys.delete",
	"roles.create", "roles.list", "roles.info", "roles.update", "roles.delete",
	"audit.list",
}
