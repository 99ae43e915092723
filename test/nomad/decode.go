package nomad

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

// decode fills the struct that target points to from a body, by the tags `hcl`
// of its fields. gohcl does nearly this, but knows neither durations nor maps as
// blocks, which nomad/api is full of.
func (s scope) decode(body *hclsyntax.Body, target any) error {
	return s.decodeStruct(body, nil, reflect.ValueOf(target).Elem())
}

func (s scope) decodeStruct(body *hclsyntax.Body, labels []string, target reflect.Value) error {
	attributes, blocks, label := fields(target)
	if label.IsValid() {
		if len(labels) != 1 {
			return at(body.Range(), "a block of %s has one label", target.Type())
		}
		if err := set(cty.StringVal(labels[0]), label); err != nil {
			return err
		}
	} else if len(labels) > 0 {
		return at(body.Range(), "a block of %s has no label", target.Type())
	}
	for name, a := range body.Attributes {
		field, ok := attributes[name]
		if !ok {
			return at(a.NameRange, "%s has no attribute %q", target.Type(), name)
		}
		if err := s.decodeAttribute(a, field); err != nil {
			return err
		}
	}
	for _, b := range body.Blocks {
		field, ok := blocks[b.Type]
		if !ok {
			return at(b.TypeRange, "%s has no block %q", target.Type(), b.Type)
		}
		if err := s.decodeBlock(b, field); err != nil {
			return err
		}
	}
	return nil
}

// fields sorts the fields of a struct by what their tags say that they are.
func fields(v reflect.Value) (attributes, blocks map[string]reflect.Value, label reflect.Value) {
	attributes, blocks = map[string]reflect.Value{}, map[string]reflect.Value{}
	for i := range v.NumField() {
		name, kind, _ := strings.Cut(v.Type().Field(i).Tag.Get("hcl"), ",")
		switch kind {
		case "label":
			label = v.Field(i)
		case "block":
			blocks[name] = v.Field(i)
		case "optional":
			attributes[name] = v.Field(i)
		}
	}
	return attributes, blocks, label
}

func (s scope) decodeBlock(b *hclsyntax.Block, field reflect.Value) error {
	switch kind := field.Type(); {
	case kind.Kind() == reflect.Slice:
		element := reflect.New(kind.Elem()).Elem()
		if err := s.decodeBody(b, b.Labels, element); err != nil {
			return err
		}
		field.Set(reflect.Append(field, element))
		return nil
	case kind.Kind() == reflect.Map && len(b.Labels) == 1:
		element := reflect.New(kind.Elem()).Elem()
		if err := s.decodeBody(b, b.Labels, element); err != nil {
			return err
		}
		if field.IsNil() {
			field.Set(reflect.MakeMap(kind))
		}
		field.SetMapIndex(reflect.ValueOf(b.Labels[0]), element)
		return nil
	case !field.IsZero():
		return at(b.TypeRange, "a second block %q", b.Type)
	default:
		return s.decodeBody(b, b.Labels, field)
	}
}

// decodeBody decodes a block into a struct, a pointer to one, or a map.
func (s scope) decodeBody(b *hclsyntax.Block, labels []string, target reflect.Value) error {
	if target.Kind() == reflect.Pointer {
		target.Set(reflect.New(target.Type().Elem()))
		target = target.Elem()
	}
	switch target.Kind() {
	case reflect.Struct:
		return s.decodeStruct(b.Body, labels, target)
	case reflect.Map:
		return s.decodeMap(b, target)
	default:
		return at(b.TypeRange, "a block %q cannot become %s", b.Type, target.Type())
	}
}

// decodeMap decodes a block of free keys, such as config and meta.
func (s scope) decodeMap(b *hclsyntax.Block, target reflect.Value) error {
	if len(b.Body.Blocks) > 0 {
		return at(b.Body.Blocks[0].TypeRange, "a block within %q", b.Type)
	}
	target.Set(reflect.MakeMap(target.Type()))
	for name, a := range b.Body.Attributes {
		value := reflect.New(target.Type().Elem()).Elem()
		if err := s.decodeAttribute(a, value); err != nil {
			return err
		}
		target.SetMapIndex(reflect.ValueOf(name), value)
	}
	return nil
}

func (s scope) decodeAttribute(a *hclsyntax.Attribute, target reflect.Value) error {
	value, err := s.evaluate(a.Expr)
	if err != nil {
		return err
	}
	if err := set(value, target); err != nil {
		return at(a.Range(), "%s: %v", a.Name, err)
	}
	return nil
}

// set sets a field, or what it points to, by way of JSON, which knows all types
// but durations.
func set(value cty.Value, target reflect.Value) error {
	if target.Type() == reflect.TypeFor[*time.Duration]() {
		target.Set(reflect.New(target.Type().Elem()))
		target = target.Elem()
	}
	if target.Type() == reflect.TypeFor[time.Duration]() {
		if value.Type() != cty.String {
			return fmt.Errorf("a duration is a string, such as \"10s\"")
		}
		d, err := time.ParseDuration(value.AsString())
		target.SetInt(int64(d))
		return err
	}
	text, err := ctyjson.SimpleJSONValue{Value: value}.MarshalJSON()
	if err != nil {
		return err
	}
	return json.Unmarshal(text, target.Addr().Interface())
}

// at is a fault with its place.
func at(r hcl.Range, format string, args ...any) error {
	return fmt.Errorf("%s: "+format, append([]any{r}, args...)...)
}
