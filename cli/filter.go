package cli

import "github.com/posthaste-io/posthaste/api/client"

// filterFlags are which items of a topic a subscription gets.
type filterFlags struct {
	FilterKind    []string `sep:"none" placeholder:"KIND" help:"On a topic: only items of this kind, or of one such as \"order.*\". May be repeated. An update replaces the whole filter."`
	FilterCEL     string   `name:"filter-cel" placeholder:"EXPRESSION" help:"On a topic: only items for which this expression is true, such as \"payload.total > 100\"."`
	FilterOnError string   `enum:",deliver,skip" default:"" placeholder:"VERDICT" help:"What becomes of an item for which the expression has no value: deliver or skip. Default deliver."`
}

// filter is nil if none was given.
func (f *filterFlags) filter() (*client.Filter, error) {
	switch {
	case f.FilterOnError != "" && f.FilterCEL == "":
		return nil, usagef("--filter-on-error is about the expression of --filter-cel; give both, since a filter is replaced whole")
	case !f.givesFilter():
		return nil, nil
	}
	return &client.Filter{Kinds: f.FilterKind, CEL: f.FilterCEL, OnError: f.FilterOnError}, nil
}

func (f *filterFlags) givesFilter() bool {
	return len(f.FilterKind) > 0 || f.FilterCEL != "" || f.FilterOnError != ""
}

type filterView struct {
	Kinds   []string `json:"kinds,omitempty"`
	CEL     string   `json:"cel,omitempty"`
	OnError string   `json:"on_error,omitempty"`
}

func filterViewOf(f client.Filter) *filterView {
	if len(f.Kinds) == 0 && f.CEL == "" {
		return nil
	}
	return &filterView{f.Kinds, f.CEL, f.OnError}
}
