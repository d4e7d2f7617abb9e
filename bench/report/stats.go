package report

import "slices"

// A Spread describes a handful of figures by their order.
type Spread struct {
	Min, Q1, Median, Q3, Max float64
	N                        int
}

// SpreadOf describes values, which it leaves unsorted. Quartiles are
// interpolated, as in most statistics programs. No values give a zero Spread.
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

// Ratios divides figure by figure: a[i]/b[i] are of the same round, so what
// disturbed the machine in that round disturbed both. Dividing the medians
// instead would compare different moments. Rounds that only one of them has
// are left out.
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
