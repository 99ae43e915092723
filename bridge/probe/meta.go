package probe

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// metaPrefix begins every service meta key of ours, metaKind is the key that
// opts in.
const (
	metaKind   = "hds"
	metaPrefix = "hds_"
)

// metaKeys are the attributes that service meta may set, each with how its
// value is read. Values come trimmed and are never empty.
var metaKeys = map[string]func(*Settings, string) error{
	"hds_path": func(s *Settings, v string) error {
		s.Path = v
		return CheckPath(v)
	},
	"hds_method": func(s *Settings, v string) error {
		s.Method = strings.ToUpper(v)
		return CheckMethod(s.Method)
	},
	"hds_host": func(s *Settings, v string) error {
		s.Host = v
		return CheckHost(v)
	},
	"hds_expected_statuses": func(s *Settings, v string) (err error) {
		s.ExpectedStatuses, err = ParseStatuses(v)
		return err
	},
	"hds_port": func(s *Settings, v string) (err error) {
		s.Port, err = parseInt(v, CheckPort)
		return err
	},
	"hds_address": func(s *Settings, v string) error {
		s.Address = v
		return CheckAddress(v)
	},
	"hds_interval": func(s *Settings, v string) (err error) {
		s.Interval, err = ParseDuration(v)
		return err
	},
	"hds_timeout": func(s *Settings, v string) (err error) {
		s.Timeout, err = ParseDuration(v)
		return err
	},
	"hds_healthy_threshold": func(s *Settings, v string) (err error) {
		s.HealthyThreshold, err = parseInt(v, CheckThreshold)
		return err
	},
	"hds_unhealthy_threshold": func(s *Settings, v string) (err error) {
		s.UnhealthyThreshold, err = parseInt(v, CheckThreshold)
		return err
	},
	"hds_observer": func(s *Settings, v string) (err error) {
		s.Observer, err = ParseObserver(v)
		return err
	},
	"hds_grpc_service": func(s *Settings, v string) error {
		s.GRPCService = v
		return CheckGRPCService(v)
	},
	"hds_tls": func(s *Settings, v string) (err error) {
		s.TLS, err = parseSwitch(v)
		return err
	},
	"hds_tls_server_name": func(s *Settings, v string) error {
		s.TLSServerName = v
		return CheckServerName(v)
	},
	"hds_tls_skip_verify": func(s *Settings, v string) (err error) {
		s.TLSSkipVerify, err = parseSwitch(v)
		return err
	},
	"hds_mode": func(s *Settings, v string) (err error) {
		s.Mode, err = ParseMode(v)
		return err
	},
}

// kindKeys are the keys that mean something to one kind of probe alone.
var kindKeys = map[string]Kind{
	"hds_path": HTTP, "hds_method": HTTP, "hds_host": HTTP, "hds_expected_statuses": HTTP,
	"hds_grpc_service": GRPC,
}

// meta is what an instance's own registration asks for.
type meta struct {
	settings Settings
	// keys are our keys that are set, in order.
	keys []string
	errs []error
	// keyOf is the key that set a field of settings.
	keyOf map[string]string
}

// readMeta reads the hds keys of a service's meta. Values are trimmed and empty
// ones are unset.
func readMeta(values map[string]string) meta {
	m := meta{keyOf: map[string]string{}}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if key != metaKind && !strings.HasPrefix(key, metaPrefix) {
			continue
		}
		value := strings.TrimSpace(values[key])
		known := key == metaKind || metaKeys[key] != nil
		if known && value == "" {
			continue
		}
		m.keys = append(m.keys, key)
		before := m.settings
		if err := m.set(key, value); err != nil {
			m.errs = append(m.errs, fmt.Errorf("meta %s: %w", clip(key), err))
		}
		m.note(key, before)
	}
	return m
}

// note remembers which field a key has set.
func (m *meta) note(key string, before Settings) {
	was, is := reflect.ValueOf(before), reflect.ValueOf(m.settings)
	for i := range is.NumField() {
		if !reflect.DeepEqual(was.Field(i).Interface(), is.Field(i).Interface()) {
			m.keyOf[is.Type().Field(i).Name] = key
		}
	}
}

func (m *meta) set(key, value string) error {
	if key == metaKind {
		kind, err := parseKind(value)
		m.settings.Kind = kind
		return err
	}
	read := metaKeys[key]
	if read == nil {
		return fmt.Errorf("no such key: %s or one of %s", metaKind, strings.Join(slices.Sorted(maps.Keys(metaKeys)), ", "))
	}
	return read(&m.settings, value)
}

// misfits reports the keys that a probe of this kind has no use for.
func (m *meta) misfits(kind Kind) error {
	for _, key := range m.keys {
		if only, ok := kindKeys[key]; ok && kind != "" && kind != only {
			return fmt.Errorf("meta %s: a %s probe has no such attribute", key, kind)
		}
	}
	return nil
}

func parseKind(v string) (Kind, error) {
	switch k := Kind(strings.ToLower(v)); k {
	case HTTP, TCP, GRPC, Off:
		return k, nil
	}
	return "", fmt.Errorf("%q is not allowed: http, tcp, grpc or off", clip(v))
}

func parseSwitch(v string) (Switch, error) {
	switch s := Switch(strings.ToLower(v)); s {
	case On, Not:
		return s, nil
	}
	return "", fmt.Errorf("%q is not allowed: true or false", clip(v))
}

// ParseObserver reads an observer policy, in any case.
func ParseObserver(v string) (ObserverPolicy, error) {
	switch o := ObserverPolicy(strings.ToLower(v)); o {
	case Auto, Sidecar, Node:
		return o, nil
	}
	return "", fmt.Errorf("%q is not allowed: %s, %s or %s", clip(v), Auto, Sidecar, Node)
}

// ParseMode reads a mode, in any case.
func ParseMode(v string) (Mode, error) {
	switch m := Mode(strings.ToLower(v)); m {
	case Enforce, Shadow:
		return m, nil
	}
	return "", fmt.Errorf("%q is not allowed: %s or %s", clip(v), Enforce, Shadow)
}

// parseInt reads a whole number within the bounds that check knows.
func parseInt(v string, check func(int) error) (int, error) {
	n, err := strconv.Atoi(v)
	if err != nil {
		return 0, fmt.Errorf("%q is not a whole number", clip(v))
	}
	return n, check(n)
}
