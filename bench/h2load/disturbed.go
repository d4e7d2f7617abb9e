package h2load

import (
	"fmt"
	"slices"
)

// Disturbance is what happens beside a load until stop is closed.
type Disturbance struct {
	Name string
	Run  func(addr string, stop <-chan struct{})
}

// Disturbed measures a server with each disturbance and without, in turns, and prints how many
// requests it answers for each second of its CPU time, as a ratio: what a disturbance takes of
// that time is lost for the requests.
func Disturbed(s *Server, l Load, all []Disturbance) error {
	if err := s.start(); err != nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	defer s.end()
	for _, d := range all {
		var ratios []float64
		for range l.Rounds {
			s.rate = s.rate[:0]
			if err := s.measure(l); err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
			if err := s.measureBeside(l, d); err != nil {
				return fmt.Errorf("%s, %s: %w", s.Name, d.Name, err)
			}
			ratios = append(ratios, s.rate[1]/s.rate[0])
		}
		slices.Sort(ratios)
		fmt.Printf("%-10s %-34s %5.2f of the rate without it (%.2f to %.2f)\n", s.Name, d.Name, median(ratios), ratios[0], ratios[len(ratios)-1])
	}
	return nil
}

func (s *Server) measureBeside(l Load, d Disturbance) error {
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		d.Run(s.addr, stop)
	}()
	err := s.measure(l)
	close(stop)
	<-done
	return err
}
