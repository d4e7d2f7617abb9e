package demo

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/ws"
)

// room is a chat room with sockets on several loops. Each message is framed once, and each
// loop sends it to its own sockets.
type room struct {
	mu      sync.Mutex
	sockets map[*loop.Loop]sockets // guarded by mu
	count   int                    // of the members; guarded by mu
}

// sockets are the sockets of a room on one loop. Only that loop uses the set.
type sockets map[*ws.Socket]struct{}

// member is the handler of one socket.
type member struct {
	room  *room
	local sockets // the set that the socket is in
	name  string
}

// line is a message to all members.
type line struct {
	From  string `json:"from,omitempty"`
	Text  string `json:"text"`
	Count int    `json:"count"` // of the members
}

const (
	maxNameBytes = 40
	maxTextBytes = 2000
)

func newRoom() *room { return &room{sockets: make(map[*loop.Loop]sockets)} }

// ServeHTTP upgrades a request to the socket of a new member.
func (r *room) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	name := req.FormValue("name")
	if name == "" || len(name) > maxNameBytes {
		http.Error(w, "name must have 1 to 40 bytes", http.StatusBadRequest)
		return
	}
	// A message that is too long or a reader that is too slow ends the connection.
	ws.Upgrade(w, req, &member{room: r, name: name}, ws.Options{
		MessageLimit: maxTextBytes, UnsentLimit: 256 << 10, PingInterval: 30 * time.Second,
	})
}

// OnOpen adds the member to the room.
func (m *member) OnOpen(s *ws.Socket) {
	m.local = m.room.socketsOf(s.Conn().Loop())
	m.local[s] = struct{}{}
	m.room.addCount(+1)
	m.room.say(line{Text: m.name + " is here"})
}

// OnMessage sends the message to all members.
func (m *member) OnMessage(s *ws.Socket, kind ws.Kind, message []byte) {
	if kind != ws.Text {
		s.Close(ws.UnsupportedData, "text only")
		return
	}
	m.room.say(line{From: m.name, Text: string(message)})
}

// OnClose removes the member from the room.
func (m *member) OnClose(s *ws.Socket, _ error) {
	delete(m.local, s)
	m.room.addCount(-1)
	m.room.say(line{Text: m.name + " has left"})
}

func (r *room) socketsOf(l *loop.Loop) sockets {
	r.mu.Lock()
	defer r.mu.Unlock()
	local := r.sockets[l]
	if local == nil {
		local = make(sockets)
		r.sockets[l] = local
	}
	return local
}

func (r *room) addCount(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count += n
}

// say sends a line to all members. Lines sent on one loop arrive everywhere in order.
func (r *room) say(ln line) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ln.Count = r.count
	text, err := json.Marshal(ln)
	if err != nil {
		return // does not happen: strings and numbers can be encoded
	}
	message := ws.Prepare(ws.Text, text)
	for l, local := range r.sockets {
		l.PostDroppable(func() { // a loop that closes has no members left
			for s := range local {
				s.SendPrepared(message)
			}
		})
	}
}
