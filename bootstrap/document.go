package bootstrap

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"sigs.k8s.io/yaml"
)

// object is a JSON object. Numbers in it are json.Number, which keeps them as
// they are written.
type object = map[string]any

// decode reads a bootstrap. A key that is given twice in one object is an
// error: one of its values would be lost.
func decode(text []byte) (object, error) {
	switch {
	case len(bytes.TrimSpace(text)) == 0:
		return nil, errors.New("the bootstrap is empty")
	case !utf8.Valid(text):
		return nil, errors.New("the bootstrap is not valid UTF-8")
	}
	text, err := toJSON(text)
	if err != nil {
		return nil, err
	}
	if key, found := duplicate(decoder(text)); found {
		return nil, fmt.Errorf("the bootstrap has the key %.80q twice in one object", key)
	}
	var doc object
	if err := decoder(text).Decode(&doc); err != nil || doc == nil {
		return nil, errors.New("the bootstrap is not an object")
	}
	return doc, nil
}

// yamlFault is what a YAML error may show: place and cause. Those without a
// place can hold values, which may be secret.
var yamlFault = regexp.MustCompile(`line \d+: .*`)

// toJSON turns YAML into JSON, and leaves JSON alone: YAML has no exact numbers.
func toJSON(text []byte) ([]byte, error) {
	var raw json.RawMessage
	err := json.Unmarshal(text, &raw)
	if err == nil {
		return text, nil
	}
	converted, yamlErr := yaml.YAMLToJSONStrict(text)
	if yamlErr == nil {
		return converted, nil
	}
	cause := yamlFault.FindString(yamlErr.Error())
	if syntax := (*json.SyntaxError)(nil); bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) && errors.As(err, &syntax) {
		cause = fmt.Sprintf("line %d: %s", 1+bytes.Count(text[:syntax.Offset], []byte("\n")), syntax)
	}
	if cause == "" {
		cause = "it cannot be read"
	}
	return nil, errors.New("the bootstrap is neither JSON nor YAML: " + cause)
}

func decoder(text []byte) *json.Decoder {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d
}

// duplicate finds a key that an object of the next value has twice. The text
// is known to be JSON.
func duplicate(d *json.Decoder) (key string, found bool) {
	start, _ := d.Token()
	if start != json.Delim('{') && start != json.Delim('[') {
		return "", false
	}
	seen := map[string]bool{}
	for d.More() {
		if start == json.Delim('{') {
			t, _ := d.Token()
			key, _ := t.(string)
			if seen[key] {
				return key, true
			}
			seen[key] = true
		}
		if key, found := duplicate(d); found {
			return key, true
		}
	}
	_, _ = d.Token() // the end
	return "", false
}

// encode writes JSON with its keys in order, and < > & as they are.
func encode(doc object, indent string) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(doc); err != nil {
		return nil, fmt.Errorf("encoding the bootstrap: %w", err)
	}
	return out.Bytes(), nil
}

// spelling is how an object spells a field: Envoy takes hds_config as well as
// hdsConfig, and Consul's bootstraps mix the two.
func spelling(o object, field string) (string, error) {
	camel := camelCase(field)
	_, isCamel := o[camel]
	_, isSnake := o[field]
	switch {
	case isCamel && isSnake && camel != field:
		return "", fmt.Errorf("the bootstrap has both %s and %s, which are the same", field, camel)
	case isCamel:
		return camel, nil
	default:
		return field, nil
	}
}

func camelCase(field string) string {
	words := strings.Split(field, "_")
	for i, w := range words[1:] {
		words[i+1] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, "")
}

// child is an object in an object, which is made if it is not there.
func child(o object, field string) (object, error) {
	key, err := spelling(o, field)
	if err != nil {
		return nil, err
	}
	if o[key] == nil {
		o[key] = object{}
	}
	c, ok := o[key].(object)
	if !ok {
		return nil, fmt.Errorf("%s of the bootstrap is not an object", key)
	}
	return c, nil
}

// set gives a field a value, under the name that it has.
func set(o object, field string, value any) error {
	key, err := spelling(o, field)
	if err != nil {
		return err
	}
	o[key] = value
	return nil
}

// lookup follows fields down, in lists by their first element; nil is nothing.
func lookup(v any, fields ...string) any {
	for _, field := range fields {
		if list := elements(v); len(list) > 0 {
			v = list[0]
		}
		o, _ := v.(object)
		key, err := spelling(o, field)
		if err != nil {
			return nil
		}
		v = o[key]
	}
	return v
}

// elements are those of a repeated field. Envoy takes one without its list, and
// so does Consul write grpc_services.
func elements(v any) []any {
	switch v := v.(type) {
	case nil:
		return nil
	case []any:
		return v
	default:
		return []any{v}
	}
}
