package http1

// fieldLines parses field lines up to the empty line.
func (p *parser) fieldLines(b []byte) (done bool, err *Error) {
	fields := p.fields
	i := p.pos
	for {
		start := i
		for _, c := range b[i:] {
			if class[c]&inToken == 0 {
				break
			}
			i++
		}
		if i >= len(b) {
			break
		}
		if b[i] != ':' || i == start {
			if i == start && b[i] == '\r' && i+1 < len(b) && b[i+1] == '\n' {
				p.fields, p.pos = fields, i+2
				if p.pos > p.maxPos {
					return false, p.tooLong()
				}
				return true, nil
			}
			p.fields = fields
			return p.lineError(b, start, fieldFault(b, start, i))
		}
		name := span{uint32(start), uint32(i)}

		i++
		for i < len(b) && (b[i] == ' ' || b[i] == '\t') {
			i++
		}
		from := i
		for {
			i = textEnd(b, i)
			if i >= len(b) || b[i] != '\t' {
				break
			}
			i++
		}
		if i >= len(b) {
			break
		}
		if b[i] != '\r' || i+1 < len(b) && b[i+1] != '\n' {
			p.fields = fields
			return p.lineError(b, start, valueFault(b, i))
		}
		if i+1 >= len(b) {
			break
		}
		to := i
		for to > from && (b[to-1] == ' ' || b[to-1] == '\t') {
			to--
		}
		i += 2
		if i > p.maxPos {
			return false, p.tooLong()
		}
		if len(fields) == p.limits.FieldCount {
			return false, ErrTooManyFields
		}
		fields = append(fields, field{name, span{uint32(from), uint32(to)}})
		p.pos = i

		if p.state == atTrailer {
			if neverTrailer(b[name.from:name.to]) {
				return false, ErrTrailerField
			}
		} else if k := int(name.to - name.from); k < len(interpreted) && interpreted[k] == b[start]|0x20 {
			if err := p.interpretField(b[name.from:name.to], span{uint32(from), uint32(to)}, b[from:to]); err != nil {
				return false, err
			}
		}
	}
	p.fields = fields
	return false, nil
}

// interpreted has, by length, the first letter of the names that interpretField knows.
var interpreted = [...]byte{4: 'h', 6: 'e', 7: 't', 10: 'c', 14: 'c', 17: 't'}

// fieldFault returns the error for a line that starts at start and has, at i, something
// other than a name and a colon.
func fieldFault(b []byte, start, i int) *Error {
	switch c := b[i]; {
	case c == '\n':
		return ErrBareLF
	case c != ' ' && c != '\t':
		return ErrFieldName
	case i == start:
		return ErrFieldFold
	default:
		return ErrFieldSpace
	}
}

// valueFault returns the error for a value that ends at i without CRLF.
func valueFault(b []byte, i int) *Error {
	if b[i] == '\n' {
		return ErrBareLF
	}
	return ErrFieldValue
}

// FieldCount returns the number of fields in the header or, after End, in the trailer
// section.
func (p *parser) FieldCount() int { return len(p.fields) }

// Field returns field i, in the order of arrival. Repeated fields are not joined.
func (p *parser) Field(i int) (name, value []byte) {
	f := &p.fields[i]
	return p.base[f.name.from:f.name.to], p.base[f.value.from:f.value.to]
}

// Get returns the value of the first field with the given name, ignoring case, or nil
// if there is none.
func (p *parser) Get(name string) []byte {
	for i := range p.fields {
		f := &p.fields[i]
		if int(f.name.to-f.name.from) == len(name) && sameName(p.base[f.name.from:f.name.to], name) {
			return p.base[f.value.from:f.value.to:f.value.to]
		}
	}
	return nil
}

// sameName compares names of the same length, ignoring case.
func sameName(b []byte, name string) bool {
	for i, c := range b {
		if c != name[i] && (c|0x20 != name[i]|0x20 || c|0x20-'a' >= 26) {
			return false
		}
	}
	return true
}

func (p *parser) text(s span) []byte { return p.base[s.from:s.to] }
