package demo

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/ws"
)

// room is a chat room whose sockets may be on several loops. What one says is
// framed once; each loop is asked to send it to its own.
type room struct {
	mu    sync.Mutex
	halls map[*loop.Loop]*hall // guarded by mu
	count int                  // of the people; guarded by mu
}

// hall is the part of the room that is on one loop. Only that loop touches it.
type hall struct{ people map[*ws.Socket]*person }

// person is the handler of one socket.
type person struct {
	room *room
	hall *hall
	name string
}

// line is what is said, and told to everybody.
type line struct {
	From  string `json:"from,omitempty"`
	Text  string `json:"text"`
	Count int    `json:"count"` // of those who hear it
}

const (
	longestName = 40
	longestText = 2000
)

func newRoom() *room { return &room{halls: make(map[*loop.Loop]*hall)} }

// ServeHTTP lets one in.
func (r *room) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	name := req.FormValue("name")
	if name == "" || len(name) > longestName {
		http.Error(w, "name must have 1 to 40 bytes", http.StatusBadRequest)
		return
	}
	// A message that is too long, or a reader that is too slow, ends the connection.
	ws.Upgrade(w, req, &person{room: r, name: name}, ws.Options{
		MessageLimit: longestText, UnsentLimit: 256 << 10, PingInterval: 30 * time.Second,
	})
}

// OnOpen takes a place.
func (p *person) OnOpen(s *ws.Socket) {
	p.hall = p.room.hallOf(s.Loop())
	p.hall.people[s] = p
	p.room.enter(+1)
	p.room.say(line{Text: p.name + " is here"})
}

// OnMessage says it to everybody.
func (p *person) OnMessage(s *ws.Socket, kind ws.Kind, message []byte) {
	if kind != ws.Text {
		s.Close(ws.UnsupportedData, "text only")
		return
	}
	p.room.say(line{From: p.name, Text: string(message)})
}

// OnClose gives the place up.
func (p *person) OnClose(s *ws.Socket, _ error) {
	delete(p.hall.people, s)
	p.room.enter(-1)
	p.room.say(line{Text: p.name + " has left"})
}

func (r *room) hallOf(l *loop.Loop) *hall {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.halls[l]
	if h == nil {
		h = &hall{people: make(map[*ws.Socket]*person)}
		r.halls[l] = h
	}
	return h
}

func (r *room) enter(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count += n
}

// say tells everybody. Lines said on one loop come in their order, everywhere.
func (r *room) say(what line) {
	r.mu.Lock()
	defer r.mu.Unlock()
	what.Count = r.count
	text, err := json.Marshal(what)
	if err != nil {
		return // strings and numbers always can be
	}
	message := ws.Prepare(ws.Text, text)
	for l, h := range r.halls {
		l.PostWith(loop.DropAtClose, func() { // a loop that is closed, or about to be, has nobody left to tell
			for s := range h.people {
				s.SendPrepared(message)
			}
		})
	}
}
