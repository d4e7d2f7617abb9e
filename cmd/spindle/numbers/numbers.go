// Package numbers writes numbers for people, the same way in every subcommand.
package numbers

import "fmt"

// ThreeDigits writes a number that is not negative with three significant digits: 1.50,
// 99.4, 702. A number below 1 has two decimals, and one above 999 all of its digits.
func ThreeDigits(v float64) string {
	switch {
	case v >= 99.95:
		return fmt.Sprintf("%.0f", v)
	case v >= 9.995:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// Thousands writes 1000000 as 1,000,000.
func Thousands[N int | int64 | uint64](n N) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
