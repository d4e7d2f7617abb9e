package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/spindleloop/spindle/cmd/spindle/numbers"
)

// unit formats a figure.
type unit func(value float64) string

func perSecond(v float64) string {
	switch {
	case v >= 1e9:
		return numbers.ThreeDigits(v/1e9) + " G/s"
	case v >= 1e6:
		return numbers.ThreeDigits(v/1e6) + " M/s"
	case v >= 1e3:
		return numbers.ThreeDigits(v/1e3) + " k/s"
	}
	return numbers.ThreeDigits(v) + " /s"
}

func nanoseconds(v float64) string {
	switch {
	case v >= 1e9:
		return numbers.ThreeDigits(v/1e9) + " s"
	case v >= 1e6:
		return numbers.ThreeDigits(v/1e6) + " ms"
	case v >= 1e3:
		return numbers.ThreeDigits(v/1e3) + " µs"
	}
	return numbers.ThreeDigits(v) + " ns"
}

func microseconds(v float64) string { return nanoseconds(v * 1e3) }

// milliseconds does not change to a smaller unit. It is for values that should be near zero,
// and 100 µs looks like more than 0.1 ms.
func milliseconds(v float64) string { return fmt.Sprintf("%.1f ms", v) }

func times(v float64) string { return fmt.Sprintf("%.1f ×", v) }

func bytesOf(v float64) string { return numbers.Thousands(int(v)) + " B" }

func count(v float64) string { return numbers.Thousands(int(v)) }

// roundFigure drops meaningless digits.
func roundFigure(v float64) float64 {
	if math.Abs(v) >= 1000 {
		return math.Round(v)
	}
	return math.Round(v*1000) / 1000
}

// percentile returns the smallest value that at least p percent of all do not exceed. It
// sorts all.
func percentile(all []float64, p int) float64 {
	slices.Sort(all)
	rank := (len(all)*p + 99) / 100
	return all[max(rank, 1)-1]
}

func mean(all []float64) float64 {
	sum := 0.0
	for _, v := range all {
		sum += v
	}
	return sum / float64(len(all))
}
