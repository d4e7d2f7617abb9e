package pyapp

import (
	"math"
	"reflect"
	"time"

	"github.com/fxamacker/cbor/v2"
)

// Values are CBOR. Its tags are those of the registry where there is one: Python's cbor2 knows them.
const (
	tagDecimal  = 4
	tagUUID     = 37
	tagSet      = 258
	tagDuration = 0x73706e64 // an integer in nanoseconds; the registered tags for durations are maps
)

// maxNesting is how deep arrays and maps may be nested, in both languages.
const maxNesting = 256

var encoding, decoding = modes()

func modes() (cbor.EncMode, cbor.DecMode) {
	tags := cbor.NewTagSet()
	always := cbor.TagOptions{EncTag: cbor.EncTagRequired, DecTag: cbor.DecTagOptional}
	for number, of := range map[uint64]reflect.Type{
		tagDecimal: reflect.TypeFor[Decimal](), tagUUID: reflect.TypeFor[UUID](), tagDuration: reflect.TypeFor[time.Duration](),
	} {
		if err := tags.Add(always, of, number); err != nil {
			panic("pyapp: " + err.Error())
		}
	}
	e, err := cbor.EncOptions{
		Time: cbor.TimeRFC3339Nano, TimeTag: cbor.EncTagRequired, NilContainers: cbor.NilContainerAsEmpty,
		BinaryMarshaler: cbor.BinaryMarshalerNone, TextMarshaler: cbor.TextMarshalerTextString,
	}.EncModeWithTags(tags)
	if err != nil {
		panic("pyapp: " + err.Error())
	}
	d, err := cbor.DecOptions{
		MaxNestedLevels: maxNesting, MaxArrayElements: math.MaxInt32, MaxMapPairs: math.MaxInt32,
		IntDec: cbor.IntDecConvertSignedOrBigInt, BigIntDec: cbor.BigIntDecodePointer, DefaultMapType: reflect.TypeFor[map[string]any](),
		BinaryUnmarshaler: cbor.BinaryUnmarshalerNone, TextUnmarshaler: cbor.TextUnmarshalerTextString,
		UnrecognizedTagToAny: cbor.UnrecognizedTagContentToAny,
	}.DecModeWithTags(tags)
	if err != nil {
		panic("pyapp: " + err.Error())
	}
	return e, d
}

// encode returns a value as CBOR. Its error begins with the path of the value that has no
// counterpart; path is that of v.
func encode(path string, v any) ([]byte, error) {
	b, err := encoding.Marshal(v)
	if err != nil {
		return nil, locateEncoding(path, reflect.ValueOf(v), err)
	}
	return b, nil
}

// decode is the opposite of encode. Dst is a pointer.
func decode(path string, b []byte, dst any) error {
	if to, ok := dst.(*[]byte); ok { // a large one is not copied
		if content, ok := byteString(b); ok {
			*to = content
			return nil
		}
	}
	if err := decoding.Unmarshal(b, dst); err != nil {
		return locateDecoding(path, b, reflect.TypeOf(dst).Elem(), err)
	}
	return nil
}

// byteString returns the content of b if that is a large byte string.
func byteString(b []byte) ([]byte, bool) {
	const head = 5 // with a length of four bytes
	if len(b) <= head || b[0] != 2<<5|26 || int(b[1])<<24|int(b[2])<<16|int(b[3])<<8|int(b[4]) != len(b)-head {
		return nil, false
	}
	return b[head:len(b):len(b)], true
}
