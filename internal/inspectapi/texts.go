package inspectapi

import "strconv"

// This file has the texts of a row in which the text of a query is looked for.

// Texts returns the texts of the row.
func (s *Socket) Texts() []string {
	return []string{s.ID, s.Kind, s.Network, s.Local, s.Peer, s.Protocol, s.State}
}

// Texts returns the texts of the row.
func (r *Request) Texts() []string {
	return []string{r.Method, r.Path, r.Peer, r.Phase, r.Socket, r.Task}
}

// Texts returns the texts of the row.
func (o *SyncObject) Texts() []string { return []string{o.ID, o.Kind} }

// Texts returns the texts of the row.
func (t *EndedTask) Texts() []string {
	return []string{t.ID, t.Name, t.Function, t.Outcome, t.Error}
}

// Texts returns the texts of the row.
func (b *Blocked) Texts() []string { return []string{b.Name, b.Task, b.Line, b.Stack} }

// Texts returns the texts of the row.
func (m *Message) Texts() []string {
	return []string{m.Kind, m.From, m.To, m.Text, m.Note, strconv.Itoa(m.Number)}
}
