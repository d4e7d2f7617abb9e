package main

import "slices"

// percentile returns the smallest value that at least p percent of all do not exceed. It
// sorts all.
func percentile(all []float64, p int) float64 {
	slices.Sort(all)
	rank := (len(all)*p + 99) / 100
	return all[max(rank, 1)-1]
}
