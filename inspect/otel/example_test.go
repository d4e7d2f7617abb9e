package otel_test

import (
	"context"
	"fmt"
	"log"
	"sort"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/inspect/otel"
)

// Spans are sent to a collector by OTLP. Without WithEndpointURL it is the one that
// OTEL_EXPORTER_OTLP_ENDPOINT names, or localhost:4318.
func Example() {
	collector := newReceiver() // in place of a real one
	defer collector.Close()

	exporter, err := otlptracehttp.New(context.Background(), otlptracehttp.WithEndpointURL(collector.URL+"/v1/traces"))
	if err != nil {
		log.Fatal(err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter))

	ctx := spindle.WithTracer(context.Background(), otel.NewTracer(provider))
	err = spindle.Run(ctx, func(ctx context.Context) error {
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.GoWith(spindle.TaskOptions{Name: "brew"}, func(ctx context.Context) error { return spindle.Yield(ctx) })
			n.GoWith(spindle.TaskOptions{Name: "pour"}, func(ctx context.Context) error { return spindle.Yield(ctx) })
			return nil
		})
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := provider.Shutdown(context.Background()); err != nil { // sends what is left
		log.Fatal(err)
	}

	var names []string
	for _, span := range collector.spans {
		names = append(names, span.Name)
	}
	sort.Strings(names)
	fmt.Println(names)
	// Output: [brew main pour]
}
