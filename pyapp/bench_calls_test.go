package pyapp_test

import (
	"context"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/spindleloop/spindle/pyapp"
)

// started returns an App with one worker that has been called.
func started(b *testing.B, app *pyapp.App) *pyapp.App {
	prepare(b, app)
	if _, err := pyapp.Call[any](b.Context(), app, "back:nothing"); err != nil {
		b.Fatal(err)
	}
	return app
}

// p50 reports the median of times.
func p50(b *testing.B, times []time.Duration) {
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Nanoseconds())/1e3, "p50-µs")
}

// BenchmarkCall calls Python functions that do nothing.
func BenchmarkCall(b *testing.B) {
	for name, target := range map[string]string{"coroutine": "back:nothing", "thread": "back:nothing_on_a_thread"} {
		b.Run(name+"/one", func(b *testing.B) {
			app := started(b, &pyapp.App{})
			times := make([]time.Duration, 0, b.N)
			for b.Loop() {
				begin := time.Now()
				if _, err := pyapp.Call[any](b.Context(), app, target); err != nil {
					b.Fatal(err)
				}
				times = append(times, time.Since(begin))
			}
			p50(b, times)
		})
		b.Run(name+"/64 in flight", func(b *testing.B) {
			app := started(b, &pyapp.App{})
			b.ResetTimer()
			begin := time.Now()
			var wg sync.WaitGroup
			for i := range 64 {
				wg.Go(func() {
					for range (b.N + i) / 64 {
						if _, err := pyapp.Call[any](b.Context(), app, target); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/time.Since(begin).Seconds(), "calls/s")
		})
	}
}

// BenchmarkCallOfGo calls a Go function that does nothing from a coroutine.
func BenchmarkCallOfGo(b *testing.B) {
	app := &pyapp.App{}
	pyapp.Handle(app, "nothing", func(context.Context, any) (any, error) { return nil, nil })
	started(b, app)
	b.ResetTimer()
	seconds, err := pyapp.Call[[]float64](b.Context(), app, "back:round_trips", "nothing", b.N)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(seconds[len(seconds)/2]*1e6, "p50-µs")
}

// BenchmarkStream sends items of 1 KB.
func BenchmarkStream(b *testing.B) {
	for name, target := range map[string]string{"async generator": "back:async_chunks", "generator": "back:chunks"} {
		b.Run(name, func(b *testing.B) {
			app := started(b, &pyapp.App{})
			b.ResetTimer()
			for _, err := range pyapp.Stream[[]byte](b.Context(), app, target, b.N, 1024) {
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "items/s")
		})
	}
	b.Run("of Go", func(b *testing.B) {
		app := &pyapp.App{}
		item := make([]byte, 1024)
		pyapp.HandleStream(app, "chunks", func(_ context.Context, n int) iter.Seq2[[]byte, error] {
			return func(yield func([]byte, error) bool) {
				for range n {
					if !yield(item, nil) {
						return
					}
				}
			}
		})
		started(b, app)
		b.ResetTimer()
		if _, err := pyapp.Call[any](b.Context(), app, "back:exhaust", "chunks", b.N); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "items/s")
	})
}

// BenchmarkBytes passes 64 MB.
func BenchmarkBytes(b *testing.B) {
	const size = 64 << 20
	app := started(b, &pyapp.App{MaxCallBytes: 2 * size})
	pid := pyapp.Pids(app)[0]
	b.Run("to Python", func(b *testing.B) {
		data := make([]byte, size)
		b.SetBytes(size)
		defer func(before float64) { b.ReportMetric((cpuTime(b, pid)-before)*1e3/float64(b.N), "python-ms/op") }(cpuTime(b, pid))
		for b.Loop() {
			if n, err := pyapp.Call[int](b.Context(), app, "back:length", data); err != nil || n != size {
				b.Fatal(n, err)
			}
		}
	})
	b.Run("from Python", func(b *testing.B) {
		b.SetBytes(size)
		defer func(before float64) { b.ReportMetric((cpuTime(b, pid)-before)*1e3/float64(b.N), "python-ms/op") }(cpuTime(b, pid))
		for b.Loop() {
			if data, err := pyapp.Call[[]byte](b.Context(), app, "back:large", size); err != nil || len(data) != size {
				b.Fatal(len(data), err)
			}
		}
	})
}
