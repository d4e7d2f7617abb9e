package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// unit formats a figure.
type unit func(value float64) string

func perSecond(v float64) string {
	switch {
	case v >= 1e9:
		return threeDigits(v/1e9) + " G/s"
	case v >= 1e6:
		return threeDigits(v/1e6) + " M/s"
	case v >= 1e3:
		return threeDigits(v/1e3) + " k/s"
	}
	return threeDigits(v) + " /s"
}

func nanoseconds(v float64) string {
	switch {
	case v >= 1e9:
		return threeDigits(v/1e9) + " s"
	case v >= 1e6:
		return threeDigits(v/1e6) + " ms"
	case v >= 1e3:
		return threeDigits(v/1e3) + " µs"
	}
	return threeDigits(v) + " ns"
}

func microseconds(v float64) string { return nanoseconds(v * 1e3) }

// milliseconds does not change to a smaller unit. It is for values that should be near zero,
// and 100 µs looks like more than 0.1 ms.
func milliseconds(v float64) string { return fmt.Sprintf("%.1f ms", v) }

func times(v float64) string { return fmt.Sprintf("%.1f ×", v) }

func bytesOf(v float64) string { return thousands(int(v)) + " B" }

func count(v float64) string { return thousands(int(v)) }

func threeDigits(v float64) string {
	switch {
	case v >= 99.95:
		return fmt.Sprintf("%.0f", v)
	case v >= 9.995:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// thousands writes 1000000 as 1,000,000.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

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
