package pyapp

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/fxamacker/cbor/v2"
)

// Set is a set of values: a set in Python. A set of Python may also be decoded into a slice.
type Set[T comparable] map[T]struct{}

// MarshalCBOR implements the interface of the encoder.
func (s Set[T]) MarshalCBOR() ([]byte, error) {
	values := make([]T, 0, len(s))
	for v := range s { // any order: it is a set
		values = append(values, v)
	}
	return encoding.Marshal(cbor.Tag{Number: tagSet, Content: values})
}

// UnmarshalCBOR implements the interface of the decoder.
func (s *Set[T]) UnmarshalCBOR(b []byte) error {
	var values []T // tags are skipped
	if err := decoding.Unmarshal(b, &values); err != nil {
		return err
	}
	*s = make(Set[T], len(values))
	for _, v := range values {
		(*s)[v] = struct{}{}
	}
	return nil
}

// UUID is a uuid.UUID of Python.
type UUID [16]byte

// String returns the UUID in its usual form, with hyphens.
func (u UUID) String() string {
	s := hex.EncodeToString(u[:])
	return strings.Join([]string{s[:8], s[8:12], s[12:16], s[16:20], s[20:]}, "-")
}

// Decimal is a decimal.Decimal of Python: Coefficient × 10^Exponent. A nil Coefficient is 0.
type Decimal struct {
	_           struct{} `cbor:",toarray"`
	Exponent    int64
	Coefficient *big.Int
}

// ParseDecimal returns the decimal number of a text such as "-12.50" or "1e3".
func ParseDecimal(s string) (Decimal, error) {
	digits, power, scaled := strings.Cut(strings.ToLower(s), "e")
	whole, fraction, _ := strings.Cut(digits, ".")
	coefficient, ok := new(big.Int).SetString(whole+fraction, 10)
	var exponent int64
	var err error
	if scaled {
		exponent, err = strconv.ParseInt(power, 10, 32)
	}
	if !ok || err != nil || strings.ContainsAny(fraction, "+-") {
		return Decimal{}, fmt.Errorf("pyapp: %q is not a decimal number", s)
	}
	return Decimal{Exponent: exponent - int64(len(fraction)), Coefficient: coefficient}, nil
}

// String returns the number without an exponent if that is short, and with one otherwise.
func (d Decimal) String() string {
	c := d.Coefficient
	if c == nil {
		c = new(big.Int)
	}
	digits := new(big.Int).Abs(c).String()
	sign := ""
	if c.Sign() < 0 {
		sign = "-"
	}
	point := int64(len(digits)) + d.Exponent
	switch {
	case d.Exponent == 0:
		return sign + digits
	case d.Exponent > 0 || point < -6:
		return fmt.Sprintf("%s%se%d", sign, digits, d.Exponent)
	case point <= 0:
		return sign + "0." + strings.Repeat("0", int(-point)) + digits
	}
	return sign + digits[:point] + "." + digits[point:]
}

// errNoCounterpart is the reason why a value cannot be sent.
var errNoCounterpart = errors.New("has no counterpart in Python")
