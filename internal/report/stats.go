package report

import "slices"

// A Spread is the distribution of a few figures.
type Spread struct {
	Min, Q1, Median, Q3, Max float64
	N                        int
}

// SpreadOf returns the spread of values without sorting them in place. Quartiles are
// interpolated, as in most statistics programs. The spread of no values is zero.
func SpreadOf(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	v := slices.Sorted(slices.Values(values))
	return Spread{
		Min:    v[0],
		Q1:     quantile(v, 0.25),
		Median: quantile(v, 0.50),
		Q3:     quantile(v, 0.75),
		Max:    v[len(v)-1],
		N:      len(v),
	}
}

func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 == len(sorted) {
		return sorted[i]
	}
	part := at - float64(i)
	return sorted[i]*(1-part) + sorted[i+1]*part
}

// Ratios returns the quotients a[i]/b[i]. Both figures are of the same round, so a
// disturbance of the machine in that round affects both. Dividing the medians instead
// would compare different moments. Rounds that only one side has are left out.
func Ratios(a, b []float64) []float64 {
	n := min(len(a), len(b))
	ratios := make([]float64, 0, n)
	for i := range n {
		if b[i] != 0 {
			ratios = append(ratios, a[i]/b[i])
		}
	}
	return ratios
}
