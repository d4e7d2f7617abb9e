package pyapp_test

import (
	"errors"
	"math"
	"math/big"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spindleloop/spindle/pyapp"
)

type item struct {
	Name      string  `json:"name"`
	UnitPrice float64 `cbor:"unit_price"`
	hidden    int     // not exported, so not sent
}

type order struct {
	Number int
	Items  []item
	Note   *item
}

// conversion is a row of the table in the guide. A value that differs after the way back has it
// in back.
type conversion struct {
	name, python string // python is the value in Python, as repr prints it
	value, back  any
}

var (
	huge, _ = new(big.Int).SetString("-340282366920938463463374607431768211456", 10)
	moment  = time.Date(2030, 1, 2, 3, 4, 5, 678901000, time.FixedZone("", 2*60*60))
	name    = pyapp.UUID{0x12, 0x34, 0x56, 0x78, 0x12, 0x34, 0x56, 0x78, 0x12, 0x34, 0x56, 0x78, 0x12, 0x34, 0x56, 0x78}
)

func decimalOf(s string) pyapp.Decimal {
	d, err := pyapp.ParseDecimal(s)
	if err != nil {
		panic(err)
	}
	return d
}

// conversions are the rows of the table.
var conversions = []conversion{
	{name: "nil", python: "None", value: (*int)(nil)},
	{name: "bool", python: "True", value: true},
	{name: "int", python: "-5", value: -5},
	{name: "uint64", python: "18446744073709551615", value: uint64(math.MaxUint64)},
	{name: "large integer", python: "-340282366920938463463374607431768211456", value: huge},
	{name: "float64", python: "0.1", value: 0.1},
	{name: "infinity", python: "-inf", value: math.Inf(-1)},
	{name: "string", python: `'κό\x00σμε'`, value: "κό\x00σμε"},
	{name: "bytes", python: `b'\x00\xff'`, value: []byte{0, 255}},
	{name: "slice", python: "['a', 'b']", value: []string{"a", "b"}},
	{name: "nil slice", python: "[]", value: []string(nil), back: []string{}},
	{name: "array", python: "[1, 2]", value: [2]int{1, 2}},
	{name: "map", python: "{'a': [1]}", value: map[string][]int{"a": {1}}},
	{name: "map with other keys", python: "{-1: 'a'}", value: map[int]string{-1: "a"}},
	{name: "struct", python: "{'name': 'tea', 'unit_price': 2.5}", value: item{Name: "tea", UnitPrice: 2.5}},
	{name: "set", python: "{7}", value: pyapp.Set[int]{7: {}}},
	{name: "time", python: "datetime.datetime(2030, 1, 2, 3, 4, 5, 678901, tzinfo=datetime.timezone(datetime.timedelta(seconds=7200)))", value: moment},
	{name: "duration", python: "datetime.timedelta(days=-1, seconds=86399, microseconds=500000)", value: -500 * time.Millisecond},
	{name: "decimal", python: "Decimal('-12.50')", value: decimalOf("-12.50")},
	{name: "UUID", python: "UUID('12345678-1234-5678-1234-567812345678')", value: name},
	{name: "text of a type", python: "'192.0.2.1'", value: netip.MustParseAddr("192.0.2.1")},
}

// TestConversions sends each value of the table to Python and back, and makes it in Python.
func TestConversions(t *testing.T) {
	app := prepare(t, &pyapp.App{})
	for _, c := range conversions {
		t.Run(c.name, func(t *testing.T) {
			if shown, err := pyapp.Call[string](t.Context(), app, "conversions:show", c.value); err != nil || shown != c.python {
				t.Errorf("in Python: %s, %v", shown, err)
			}
			want := c.value
			if c.back != nil {
				want = c.back
			}
			source := strings.NewReplacer("Decimal", "decimal.Decimal", "UUID", "uuid.UUID", "-inf", "float('-inf')").Replace(c.python)
			for _, way := range []struct{ target, arg any }{{"conversions:echo", c.value}, {"conversions:make", source}} {
				into := reflect.New(reflect.TypeOf(c.value))
				err := pyapp.CallInto(t.Context(), app, way.target.(string), into.Interface(), way.arg)
				if got := into.Elem().Interface(); err != nil || !equal(got, want) {
					t.Errorf("%s: %v, %v", way.target, got, err)
				}
			}
		})
	}
	if got, err := pyapp.Call[float64](t.Context(), app, "conversions:echo", math.NaN()); err != nil || !math.IsNaN(got) {
		t.Errorf("not a number: %v, %v", got, err)
	}
}

// equal is reflect.DeepEqual, with times compared by instant and offset.
func equal(a, b any) bool {
	if at, ok := a.(time.Time); ok {
		_, one := at.Zone()
		_, other := b.(time.Time).Zone()
		return at.Equal(b.(time.Time)) && one == other
	}
	if d, ok := a.(pyapp.Decimal); ok {
		return d.String() == b.(pyapp.Decimal).String()
	}
	if n, ok := a.(*big.Int); ok {
		return n.Cmp(b.(*big.Int)) == 0
	}
	return reflect.DeepEqual(a, b)
}

// TestConversionsFromPython are the rows of values that only Python has.
func TestConversionsFromPython(t *testing.T) {
	app := prepare(t, &pyapp.App{})
	ctx := t.Context()
	for source, call := range map[string]struct {
		do   func(source string) (any, error)
		want any
	}{
		"(1, 2)":        {func(s string) (any, error) { return result[[]int](ctx, app, "conversions:make", s) }, []int{1, 2}},
		"Pair(1, 2)":    {func(s string) (any, error) { return result[[2]int](ctx, app, "conversions:make", s) }, [2]int{1, 2}},
		"{3}":           {func(s string) (any, error) { return result[[]int](ctx, app, "conversions:make", s) }, []int{3}},
		"frozenset({})": {func(s string) (any, error) { return result[pyapp.Set[int]](ctx, app, "conversions:make", s) }, pyapp.Set[int]{}},
		"Item('tea')":   {func(s string) (any, error) { return result[item](ctx, app, "conversions:make", s) }, item{Name: "tea"}},
		"Order(1, [Item('tea', 2.5)])": {func(s string) (any, error) { return result[order](ctx, app, "conversions:make", s) },
			order{Number: 1, Items: []item{{Name: "tea", UnitPrice: 2.5}}}},
		"Colour.RED":                   {func(s string) (any, error) { return result[string](ctx, app, "conversions:make", s) }, "red"},
		"datetime.date(2030, 1, 2)":    {func(s string) (any, error) { return result[string](ctx, app, "conversions:make", s) }, "2030-01-02"},
		"datetime.time(3, 4)":          {func(s string) (any, error) { return result[string](ctx, app, "conversions:make", s) }, "03:04:00"},
		"bytearray(b'a')":              {func(s string) (any, error) { return result[[]byte](ctx, app, "conversions:make", s) }, []byte("a")},
		"memoryview(b'a')":             {func(s string) (any, error) { return result[[]byte](ctx, app, "conversions:make", s) }, []byte("a")},
		"uuid.UUID(int=1)":             {func(s string) (any, error) { return result[[16]byte](ctx, app, "conversions:make", s) }, [16]byte{15: 1}},
		"collections.OrderedDict(a=1)": {func(s string) (any, error) { return result[map[string]int](ctx, app, "conversions:make", s) }, map[string]int{"a": 1}},
		"[1, -1, 'a', b'b', None, True, 0.5, {'k': [2]}, {3}, 1 << 64]": {func(s string) (any, error) { return result[any](ctx, app, "conversions:make", s) },
			[]any{int64(1), int64(-1), "a", []byte("b"), nil, true, 0.5, map[string]any{"k": []any{int64(2)}}, []any{int64(3)}, new(big.Int).Lsh(big.NewInt(1), 64)}},
	} {
		if got, err := call.do(source); err != nil || !reflect.DeepEqual(got, call.want) {
			t.Errorf("%s: %#v, %v", source, got, err)
		}
	}
}

// TestDataclassesOfStructs: a parameter with the annotation of a dataclass gets one.
func TestDataclassesOfStructs(t *testing.T) {
	app := prepare(t, &pyapp.App{})
	tea := item{Name: "tea", UnitPrice: 2.5, hidden: 1}
	const shown = "Order(number=1, items=[Item(name='tea', unit_price=2.5)], note=None)"
	if got, err := pyapp.Call[string](t.Context(), app, "conversions:order", order{Number: 1, Items: []item{tea}}); err != nil || got != shown {
		t.Error(got, err)
	}
	got, err := pyapp.Call[string](t.Context(), app, "conversions:orders", []order{{Number: 1, Items: []item{tea}}}, pyapp.Named{"by": map[string]item{"a": tea}})
	if err != nil || got != "["+shown+"] {'a': Item(name='tea', unit_price=2.5)}" {
		t.Error(got, err)
	}
	for path, arg := range map[string]any{
		"args[0].Colour: conversions.Order has no such field":                       map[string]any{"Number": 1, "Items": nil, "Colour": "red"},
		"args[0].Items[1].Kind: conversions.Item has no such field":                 map[string]any{"Number": 1, "Items": []any{tea, map[string]string{"Kind": "x"}}},
		"args[0]: Order.__init__() missing 1 required positional argument: 'items'": map[string]any{"Number": 1},
	} {
		_, err := pyapp.Call[string](t.Context(), app, "conversions:order", arg)
		if failed := (*pyapp.Error)(nil); !errors.As(err, &failed) || failed.Message != path {
			t.Errorf("%v; want %s", err, path)
		}
	}
}

// TestPathsOfValuesWithoutCounterpart: an error names the value.
func TestPathsOfValuesWithoutCounterpart(t *testing.T) {
	app := prepare(t, &pyapp.App{})
	ctx := t.Context()
	type box struct{ Items []any }
	for want, args := range map[string][]any{
		"args[1].Items[3]: a chan int has no counterpart in Python": {1, box{[]any{0, 1, 2, make(chan int)}}},
		"args[0].f: a func() has no counterpart in Python":          {map[string]any{"f": func() {}}},
		"limit.Items[0]: a complex128 has no counterpart in Python": {pyapp.Named{"limit": &box{[]any{1i}}}},
	} {
		_, err := pyapp.Call[any](ctx, app, "conversions:show", args...)
		if err == nil || err.Error() != "pyapp: conversions:show: "+want {
			t.Errorf("%v; want %s", err, want)
		}
	}
	for source, want := range map[string]string{
		"{'items': [1, 2, 3, object()]}":   "result.items[3]: a object has no counterpart in Go",
		"Order(1, [1j])":                   "result.items[0]: a complex has no counterpart in Go",
		"fractions.Fraction(1, 3)":         "result: a fractions.Fraction has no counterpart in Go",
		"[ipaddress.ip_address('::1')]":    "result[0]: a ipaddress.IPv6Address has no counterpart in Go",
		"{(1, 2): datetime.timedelta.max}": "result[(1, 2)]: a datetime.timedelta of more than 292 years has no counterpart in Go",
	} {
		_, err := pyapp.Call[any](ctx, app, "conversions:make", source)
		if failed := (*pyapp.Error)(nil); !errors.As(err, &failed) || failed.Message != want {
			t.Errorf("%s: %v; want %s", source, err, want)
		}
	}
	for source, path := range map[string]string{"[datetime.datetime(2030, 1, 1)]": "result[0]: ", "cycle()": "result.a", `['\ud800']`: "result[0]: "} {
		_, err := pyapp.Call[any](ctx, app, "conversions:make", source)
		if failed := (*pyapp.Error)(nil); !errors.As(err, &failed) || !strings.HasPrefix(failed.Message, path) {
			t.Errorf("%s: %v", source, err)
		}
	}
	if _, err := pyapp.Call[order](ctx, app, "conversions:make", "{'number': 1, 'items': [{'name': 'a'}, {'name': 2}]}"); err == nil ||
		err.Error() != "pyapp: conversions:make: result.items[1].name: Python's int does not fit into Go's string" {
		t.Error(err)
	}
	if _, err := pyapp.Call[map[string][]int](ctx, app, "conversions:make", "{'a': [1, None, 1 << 70]}"); err == nil ||
		!strings.HasPrefix(err.Error(), "pyapp: conversions:make: result.a[2]: ") {
		t.Error(err)
	}
}

func TestDecimalText(t *testing.T) {
	for text, want := range map[string]string{
		"0": "0", "-12.50": "-12.50", "0.001": "0.001", "-0.5": "-0.5", "1e3": "1e3", "1.5E-10": "1.5e-10", "+7": "7", ".5": "0.5",
	} {
		d, err := pyapp.ParseDecimal(text)
		if text == "1.5E-10" {
			want = "15e-11"
		}
		if err != nil || d.String() != want {
			t.Errorf("%s: %v, %v", text, d, err)
		}
	}
	for _, text := range []string{"", "x", "1.-5", "1e", "1ex", "--1"} {
		if d, err := pyapp.ParseDecimal(text); err == nil {
			t.Errorf("%s: %v", text, d)
		}
	}
	if s := (pyapp.Decimal{}).String(); s != "0" {
		t.Error(s)
	}
}
