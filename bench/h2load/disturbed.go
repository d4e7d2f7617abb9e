package h2load

import (
	"fmt"
	"slices"
	"time"
)

// Disturbance is what happens beside a load until stop is closed.
type Disturbance struct {
	Name string
	Run  func(addr string, stop <-chan struct{})
}

// Disturbed measures a server without each disturbance, beside it, and beside one of another process
// of the same server, in turns. It prints how many requests the server answers for each second of its
// CPU time, as ratios to the rate without. What a disturbance takes of that time is lost for the
// requests. The other process is the control: what its disturbance costs the server is not the server's
// work, but that of the cores and of the load generator, which sends smaller batches. How much of
// a core the other process takes is what the disturbance costs by itself.
func Disturbed(s *Server, l Load, all []Disturbance) error {
	other := &Server{Name: s.Name, Command: s.Command}
	for _, s := range []*Server{s, other} {
		if err := s.start(); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		defer s.end()
	}
	for _, d := range all {
		var beside, control, share []float64
		for range l.Rounds {
			s.rate = s.rate[:0]
			if err := s.measure(l); err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
			if err := s.measureBeside(l, d, s.addr); err != nil {
				return fmt.Errorf("%s, %s: %w", s.Name, d.Name, err)
			}
			before, begun := other.cpu(), time.Now()
			if err := s.measureBeside(l, d, other.addr); err != nil {
				return fmt.Errorf("%s, control of %s: %w", s.Name, d.Name, err)
			}
			share = append(share, (other.cpu()-before)/time.Since(begun).Seconds())
			beside, control = append(beside, s.rate[1]/s.rate[0]), append(control, s.rate[2]/s.rate[0])
		}
		fmt.Printf("%-10s %-34s %s of the rate without it, control %s; by itself %s of a core\n",
			s.Name, d.Name, spread(beside), spread(control), spread(share))
	}
	return nil
}

// spread returns the median of ratios, and their extremes.
func spread(ratios []float64) string {
	slices.Sort(ratios)
	return fmt.Sprintf("%.2f (%.2f to %.2f)", median(ratios), ratios[0], ratios[len(ratios)-1])
}

// measureBeside measures s while a server at addr is disturbed.
func (s *Server) measureBeside(l Load, d Disturbance, addr string) error {
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		d.Run(addr, stop)
	}()
	err := s.measure(l)
	close(stop)
	<-done
	return err
}
