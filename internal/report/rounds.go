package report

import "slices"

// Interleave calls measure for each name in each round. Every other round is in reverse order, so
// that the effect of one name on the next evens out. If measure fails, failed gets the error: if it
// returns nil, the name takes no further part, because figures of a broken program cannot be
// trusted; otherwise Interleave returns its error. The result has the names that succeeded in
// every round.
func Interleave(rounds int, names []string, measure func(name string, round int) error, failed func(name string, err error) error) ([]string, error) {
	names = slices.Clone(names)
	for round := range rounds {
		order := slices.Clone(names)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, name := range order {
			err := measure(name, round)
			if err == nil {
				continue
			}
			if err := failed(name, err); err != nil {
				return nil, err
			}
			names = slices.DeleteFunc(names, func(n string) bool { return n == name })
		}
	}
	return names, nil
}

// A Tally collects the rows of a section, round by round. The zero value is empty.
type Tally struct {
	rows map[string]*Row
}

// Add appends one round's figures, in the order of the columns.
func (t *Tally) Add(name string, ours bool, figures ...float64) {
	if t.rows == nil {
		t.rows = map[string]*Row{}
	}
	r := t.rows[name]
	if r == nil {
		r = &Row{Name: name, Ours: ours, Figures: make([][]float64, len(figures))}
		t.rows[name] = r
	}
	for i, f := range figures {
		r.Figures[i] = append(r.Figures[i], f)
	}
}

// Rows returns the rows in the order of names. Names without figures have no row.
func (t *Tally) Rows(names []string) []Row {
	var rows []Row
	for _, name := range names {
		if r := t.rows[name]; r != nil {
			rows = append(rows, *r)
		}
	}
	return rows
}

// Fill gives rows without figures those that the tally has under their keys, as the first column.
func (t *Tally) Fill(rows []Row) {
	for i := range rows {
		if r := t.rows[rows[i].Key]; r != nil {
			rows[i].Figures = r.Figures
		} else {
			rows[i].Figures = [][]float64{nil}
		}
	}
}
