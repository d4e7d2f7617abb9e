package inspect

import (
	"maps"
	"slices"
	"strings"

	"github.com/spindleloop/spindle/internal/probe"
)

// family is a metric of what belongs to no loop, with its samples by their labels.
type family struct {
	probe.Sample // the first one, for its name and kind
	samples      map[string]*probe.Sample
}

// metered writes the metrics of what belongs to no loop. Samples with the same labels, of two
// callers for example, are added.
func (w *metricWriter) metered(all []probe.Sample) {
	families := map[string]*family{}
	for _, s := range all {
		f := families[s.Name]
		if f == nil {
			f = &family{s, map[string]*probe.Sample{}}
			families[s.Name] = f
		}
		labels := labelsOf(&s)
		sum := f.samples[labels]
		if sum == nil {
			sum = &probe.Sample{Took: &probe.Durations{}}
			f.samples[labels] = sum
		}
		sum.Value += s.Value
		if s.Took != nil {
			sum.Took.Merge(s.Took)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(families)) {
		w.family(families[name])
	}
}

func (w *metricWriter) family(f *family) {
	kind := "counter"
	switch {
	case f.Took != nil:
		kind = "histogram"
	case f.Gauge:
		kind = "gauge"
	}
	w.head(f.Name, kind, f.Help)
	for _, labels := range slices.Sorted(maps.Keys(f.samples)) {
		if s := f.samples[labels]; f.Took != nil {
			w.histogram(f.Name, labels, s.Took.Took[:], requestBucket, s.Took.Sum)
		} else {
			w.sample(f.Name, labels, s.Value)
		}
	}
}

func labelsOf(s *probe.Sample) string {
	var all []string
	for _, l := range s.Labels {
		all = append(all, l[0]+`="`+escapeLabel(l[1])+`"`)
	}
	return strings.Join(all, ",")
}
