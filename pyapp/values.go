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
	tagBlob     = 0x73706e65 // the index of large bytes that were sent before
)

// maxNesting is how deep arrays and maps may be nested, in both languages.
const maxNesting = 256

var encoding, decoding = modes()

func modes() (cbor.UserBufferEncMode, cbor.DecMode) {
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
	}.UserBufferEncModeWithTags(tags)
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

// large is the size from which bytes are not encoded, but sent as they are.
const large = 64 << 10

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
	if err := decoding.Unmarshal(b, dst); err != nil {
		return locateDecoding(path, b, reflect.TypeOf(dst).Elem(), err)
	}
	return nil
}

// decodeRaw decodes large bytes that were sent as they are.
func decodeRaw(path string, b []byte, dst any) error {
	switch to := dst.(type) {
	case *[]byte:
		*to = b
		return nil
	case *any:
		*to = b
		return nil
	}
	encoded, err := encode(path, b)
	if err != nil {
		return err
	}
	return decode(path, encoded, dst)
}
