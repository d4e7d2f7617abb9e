package http1_test

import (
	"math/rand/v2"
	"testing"
)

// seeds adds streams to the corpus.
func seeds(f *testing.F) {
	for _, h := range hostile {
		if len(h.stream) < 1000 {
			f.Add(h.stream)
		}
	}
	r := rand.New(rand.NewPCG(3, 5))
	for range 50 {
		f.Add(randomStream(r))
	}
}

func FuzzRequestsAgainstNetHTTP(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, stream string) { compare(t, stream) })
}

func FuzzRequestSplits(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, stream string) {
		r := rand.New(rand.NewPCG(uint64(len(stream)), 5))
		checkSplits(t, requestParser, stream, r)
		checkSplits(t, smallRequestParser, stream, r)
	})
}

func FuzzResponsesAgainstNetHTTP(f *testing.F) {
	r := rand.New(rand.NewPCG(4, 5))
	for range 50 {
		f.Add(randomResponse(r), false)
	}
	f.Fuzz(func(t *testing.T, stream string, head bool) {
		compareResponse(t, stream, head)
		r := rand.New(rand.NewPCG(uint64(len(stream)), 5))
		checkSplits(t, responseParser, stream, r)
		checkSplits(t, smallResponseParser, stream, r)
	})
}
