package nats

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/spindleloop/spindle/internal/probe"
)

// Service is how a Bus describes itself to tools for services of NATS, such as "nats micro list".
type Service struct {
	// Name has only letters, digits, - and _. "" means that the bus does not answer such tools.
	Name string

	// Version is a semantic version. "" means "0.0.0".
	Version string

	Description string
}

// discovery answers tools for services of NATS. The endpoints are the subjects that workers of the
// bus serve.
type discovery struct {
	b       *Bus
	id      micro.ServiceIdentity
	started time.Time
}

// describe subscribes to the subjects of such tools.
func (b *Bus) describe() error {
	s := b.o.Service
	if s.Name == "" {
		return nil
	}
	probe.Measuring.Store(true)
	d := &discovery{b, micro.ServiceIdentity{Name: s.Name, ID: strings.TrimPrefix(nats.NewInbox(), nats.InboxPrefix), Version: cmp.Or(s.Version, "0.0.0"), Metadata: map[string]string{}}, time.Now()}
	for verb, answer := range map[micro.Verb]func() any{micro.PingVerb: d.ping, micro.InfoVerb: d.info, micro.StatsVerb: d.stats} {
		for _, to := range [][2]string{{"", ""}, {s.Name, ""}, {s.Name, d.id.ID}} {
			subject, err := micro.ControlSubject(verb, to[0], to[1])
			if err == nil {
				_, err = b.nc.Subscribe(subject, func(m *nats.Msg) {
					if text, err := json.Marshal(answer()); err == nil {
						_ = m.Respond(text) // a tool that has left needs no answer
					}
				})
			}
			if err != nil {
				return fmt.Errorf("relay/nats: service %s: %w", s.Name, err)
			}
		}
	}
	return nil
}

func (d *discovery) ping() any {
	return micro.Ping{ServiceIdentity: d.id, Type: micro.PingResponseType}
}

func (d *discovery) info() any {
	i := micro.Info{ServiceIdentity: d.id, Type: micro.InfoResponseType, Description: d.b.o.Service.Description, Endpoints: []micro.EndpointInfo{}}
	for _, s := range d.services() {
		i.Endpoints = append(i.Endpoints, micro.EndpointInfo{Name: endpoint(s), Subject: s.Subject, QueueGroup: s.Group})
	}
	return i
}

func (d *discovery) stats() any {
	st := micro.Stats{ServiceIdentity: d.id, Type: micro.StatsResponseType, Started: d.started, Endpoints: []*micro.EndpointStats{}}
	for _, s := range d.services() {
		e := &micro.EndpointStats{
			Name: endpoint(s), Subject: s.Subject, QueueGroup: s.Group, NumRequests: int(s.Requests), NumErrors: int(s.Errors),
			LastError: s.LastError, ProcessingTime: s.Busy,
		}
		if s.Requests > 0 {
			e.AverageProcessingTime = s.Busy / time.Duration(s.Requests)
		}
		st.Endpoints = append(st.Endpoints, e)
	}
	return st
}

func endpoint(s probe.Service) string { return strings.ReplaceAll(s.Subject, ".", "-") }

// services returns what the workers of the bus serve, by subject.
func (d *discovery) services() (all []probe.Service) {
	for _, m := range probe.AllMetered() {
		if s, ok := m.(probe.Serving); ok {
			if one := s.ProbeService(); one.Bus == any(d.b) {
				all = append(all, one)
			}
		}
	}
	slices.SortFunc(all, func(a, b probe.Service) int { return strings.Compare(a.Subject, b.Subject) })
	return all
}
