package ws_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/ws"
)

// node returns a command that runs a program with Node's ws module.
func node(t *testing.T, program string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "node", append([]string{"-e", "const WebSocket = require('ws');" + program}, args...)...)
	cmd.Env = append(os.Environ(), "NODE_PATH="+os.Getenv("NODE_PATH")+":/usr/share/nodejs")
	return cmd
}

// haveNode skips a test where Node or its ws module is not installed.
func haveNode(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("each case starts a process")
	}
	if out, err := node(t, "").CombinedOutput(); err != nil {
		t.Skipf("Node with its module ws is not installed (apt-get install nodejs node-ws): %v %.200s", err, out)
	}
}

// TestNodeClient connects Node's client to our servers, with and without
// compression.
func TestNodeClient(t *testing.T) {
	haveNode(t)
	for form, address := range servers(t, ws.Options{CompressFrom: 100, Subprotocols: []string{"echo"}}) {
		for _, compress := range []string{"false", "true"} {
			t.Run(form+", compression "+compress, func(t *testing.T) {
				out, err := node(t, `
					const c = new WebSocket(process.argv[1], 'echo', {perMessageDeflate: process.argv[2] === 'true'});
					const messages = ['', 'x', 'κόσμε 😀', 'a'.repeat(126), Buffer.from('binary'), 'b'.repeat(65536), 'c'.repeat(300000)];
					let at = 0, ponged = false;
					c.on('open', () => { c.ping('?'); c.send(messages[0]); });
					c.on('pong', (data) => { ponged = data.toString() === '?'; });
					c.on('message', (data, binary) => {
						if (data.toString() !== messages[at].toString() || binary !== Buffer.isBuffer(messages[at])) throw new Error('message ' + at);
						if (++at < messages.length) c.send(messages[at]); else c.close(4000, 'bye');
					});
					c.on('close', (code) => console.log(at, ponged, code, c.protocol, c.extensions !== ''));
				`, "ws://"+address+"/", compress).CombinedOutput()
				if got, want := strings.TrimSpace(string(out)), "7 true 4000 echo "+compress; err != nil || got != want {
					t.Errorf("it printed %q, %v; want %q", got, err, want)
				}
			})
		}
	}
}

// TestNodeServer connects our clients to Node's server, with and without
// compression.
func TestNodeServer(t *testing.T) {
	haveNode(t)
	cmd := node(t, `
		const s = new WebSocket.WebSocketServer({host: '127.0.0.1', port: 0, perMessageDeflate: {threshold: 100}});
		s.on('connection', (c) => c.on('message', (data, binary) => c.send(data, {binary})));
		s.on('listening', () => console.log(s.address().port));
	`)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	port, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	url := "ws://127.0.0.1:" + strings.TrimSpace(port) + "/"
	for name, o := range map[string]ws.Options{"plain": {}, "compressed": {CompressFrom: 100}} {
		o.Subprotocols = []string{"echo"}
		t.Run(name, func(t *testing.T) { talkTo(t, url, o) })
	}
}
