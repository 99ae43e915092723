package admin

import (
	"cmp"
	"slices"

	"github.com/ryanuber/go-glob"
)

// none stands for the status of a probe that has no check.
const none = "none"

// StatusWord is the check's status, "none" if there is no check.
func (c Check) StatusWord() string { return cmp.Or(c.Status, none) }

// Filter is what people ask to see of a status. Its zero value is all.
type Filter struct {
	// Service is a glob of service names and ids, Status a StatusWord.
	Service, Status string
}

// serves says whether a check is one of the filter's service.
func (f Filter) serves(c Check) bool {
	return f.Service == "" || glob.Glob(f.Service, c.Service) || glob.Glob(f.Service, c.ServiceID)
}

// Checks are those that the filter lets pass, in their order.
func (f Filter) Checks(s Status) []Check {
	return slices.DeleteFunc(slices.Clone(s.Checks), func(c Check) bool {
		return !f.serves(c) || f.Status != "" && f.Status != c.StatusWord()
	})
}

// Problems are those of the filter's service. Problems have no status: that of
// the filter is about checks alone.
func (f Filter) Problems(s Status) []Problem {
	if f.Service == "" {
		return s.Problems
	}
	served := map[string]bool{}
	for _, c := range s.Checks {
		served[c.ServiceID] = f.serves(c)
	}
	return slices.DeleteFunc(slices.Clone(s.Problems), func(p Problem) bool {
		return !served[p.ServiceID] && !glob.Glob(f.Service, p.ServiceID)
	})
}
