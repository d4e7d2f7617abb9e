package pyapp

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"strconv"
	"strings"

	"github.com/fxamacker/cbor/v2"
)

// The functions of this file find the part of a value that cannot be converted. They are slow
// and run only after a conversion has failed.

// locateEncoding returns err with the path of the innermost part of v that cannot be encoded.
func locateEncoding(path string, v reflect.Value, err error) error {
	for range maxNesting {
		for v.Kind() == reflect.Interface || v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		found := false
		for step, part := range parts(v) {
			if _, failed := encoding.Marshal(part.Interface()); failed != nil {
				path, v, err, found = path+step, part, failed, true
				break
			}
		}
		if !found {
			break
		}
	}
	if unsupported := (*cbor.UnsupportedTypeError)(nil); errors.As(err, &unsupported) {
		return fmt.Errorf("%s: a %v %w", path, unsupported.Type, errNoCounterpart)
	}
	return fmt.Errorf("%s: %s", path, plainText(err))
}

// locateArguments is locateEncoding for the arguments of a call.
func locateArguments(r *request, err error) error {
	if _, failed := encoding.Marshal(r.Args); failed != nil {
		return locateEncoding("args", reflect.ValueOf(r.Args), failed)
	}
	for name, v := range r.Named { // any order: one that cannot be encoded is enough
		if _, failed := encoding.Marshal(v); failed != nil {
			return locateEncoding(name, reflect.ValueOf(v), failed)
		}
	}
	return err
}

// parts yields the elements and the exported fields of a value, with the steps to them.
func parts(v reflect.Value) iter.Seq2[string, reflect.Value] {
	return func(yield func(string, reflect.Value) bool) {
		switch v.Kind() {
		case reflect.Slice, reflect.Array:
			for i := range v.Len() {
				if !yield(index(i), v.Index(i)) {
					return
				}
			}
		case reflect.Map:
			for _, key := range v.MapKeys() { // any order: one of those that cannot be encoded is enough
				if !yield(keyStep(key.Interface()), v.MapIndex(key)) {
					return
				}
			}
		case reflect.Struct:
			for i := range v.NumField() {
				name, ok := fieldName(v.Type().Field(i))
				if ok && !yield("."+name, v.Field(i)) {
					return
				}
			}
		}
	}
}

func index(i int) string { return "[" + strconv.Itoa(i) + "]" }

func keyStep(key any) string {
	if s, ok := key.(string); ok {
		return "." + s
	}
	return fmt.Sprintf("[%v]", key)
}

// fieldName returns the name of a field in CBOR. It reports false if the field is not encoded.
func fieldName(f reflect.StructField) (string, bool) {
	if !f.IsExported() {
		return "", false
	}
	tag, ok := f.Tag.Lookup("cbor")
	if !ok {
		tag = f.Tag.Get("json")
	}
	name, _, _ := strings.Cut(tag, ",")
	switch name {
	case "-":
		return "", false
	case "":
		return f.Name, true
	}
	return name, true
}

// locateDecoding returns err with the path of the innermost part of b that does not fit into
// its part of a type.
func locateDecoding(path string, b []byte, t reflect.Type, err error) error {
	for range maxNesting {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		step, part, of, failed := misfit(b, t)
		if failed == nil {
			break
		}
		path, b, t, err = path+step, part, of, failed
	}
	return fmt.Errorf("%s: %s", path, plainText(err))
}

// misfit returns the first part of b that does not fit into its part of t, or a nil error.
func misfit(b []byte, t reflect.Type) (step string, part []byte, of reflect.Type, err error) {
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		var items []cbor.RawMessage
		if decoding.Unmarshal(b, &items) != nil {
			return
		}
		for i, item := range items {
			if err := fits(item, t.Elem()); err != nil {
				return index(i), item, t.Elem(), err
			}
		}
	case reflect.Map, reflect.Struct:
		var items map[any]cbor.RawMessage
		if decoding.Unmarshal(b, &items) != nil {
			return
		}
		for key, item := range items { // any order: one that does not fit is enough
			of := memberType(t, key)
			if of == nil {
				continue
			}
			if err := fits(item, of); err != nil {
				return keyStep(key), item, of, err
			}
		}
	}
	return
}

// memberType returns the type of the values of a map, or of the field of a struct, or nil.
func memberType(t reflect.Type, key any) reflect.Type {
	if t.Kind() == reflect.Map {
		return t.Elem()
	}
	for i := range t.NumField() {
		if name, ok := fieldName(t.Field(i)); ok && strings.EqualFold(name, fmt.Sprint(key)) {
			return t.Field(i).Type
		}
	}
	return nil
}

func fits(b []byte, t reflect.Type) error { return decoding.Unmarshal(b, reflect.New(t).Interface()) }

// pythonTypes are the types in Python of what the codec names otherwise.
var pythonTypes = map[string]string{
	"positive integer": "int", "negative integer": "int", "byte string": "bytes", "UTF-8 text string": "str", "array": "list", "map": "dict",
	"primitives": "bool, float or None", "tag": "value with a tag, such as a set",
}

// plainText returns the text of an error of the codec without its prefix.
func plainText(err error) string {
	if kind := (*cbor.UnmarshalTypeError)(nil); errors.As(err, &kind) {
		return fmt.Sprintf("Python's %s does not fit into Go's %s", cmp.Or(pythonTypes[kind.CBORType], kind.CBORType), kind.GoType)
	}
	return strings.TrimPrefix(err.Error(), "cbor: ")
}
