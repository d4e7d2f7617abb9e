// Package top shows in a terminal what package inspect knows of a running program: its
// loops, its tasks, and the stacks of what blocks.
package top

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spindleloop/spindle/internal/inspectapi"
)

// Client asks an inspector.
type Client struct {
	base  *url.URL // ends with a slash
	token string
	http  *http.Client
}

// answerLimit bounds the size of an answer that is held in memory.
const answerLimit = 256 << 20

// Dial returns a client for the inspector at an address: HOST:PORT, or the URL of its page.
// Without a path, it looks at the root and then at /debug/spindle/, which may redirect.
func Dial(ctx context.Context, addr, token string) (*Client, error) {
	whole := addr
	if !strings.Contains(addr, "://") {
		if strings.HasPrefix(addr, ":") {
			addr = "localhost" + addr
		}
		whole = "http://" + addr
	}
	base, err := url.Parse(whole)
	if err != nil || base.Host == "" || base.Port() == "" && whole != addr {
		return nil, errors.New("want HOST:PORT, or the URL of an inspector")
	}
	c := &Client{base: base, token: token, http: &http.Client{Timeout: 10 * time.Second, CheckRedirect: keepToken}}
	if strings.Trim(base.Path, "/") != "" {
		base.Path = strings.TrimSuffix(base.Path, "/") + "/"
		return c, c.follow(ctx)
	}
	base.Path = "/"
	err = c.moveOn(ctx)
	var status *statusError
	if !errors.As(err, &status) || status.code != http.StatusNotFound {
		return c, err
	}
	base.Path = "/debug/spindle/"
	if err := c.follow(ctx); err != nil {
		return nil, fmt.Errorf("no inspector, neither at / nor at /debug/spindle/: %w", err)
	}
	return c, nil
}

// moveOn asks for the loops. If the program has an inspector on a loop of its own, and that
// can be reached, moveOn makes it the base: it answers while all other loops are blocked.
func (c *Client) moveOn(ctx context.Context) error {
	var a inspectapi.LoopsAnswer
	if err := c.Get(ctx, "loops", nil, &a); err != nil {
		return err
	}
	to := a.Process.Inspector
	if to == "" || c.token != "" || !isLoopback(c.base.Hostname()) || !isLoopback(to) {
		return nil
	}
	there := &Client{base: &url.URL{Scheme: "http", Host: to, Path: "/"}, http: c.http}
	var b inspectapi.LoopsAnswer
	if there.Get(ctx, "loops", nil, &b) == nil && b.Process.PID == a.Process.PID {
		c.base = there.base
	}
	return nil
}

// isLoopback reports whether a host, which may have a port, is this machine.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// keepToken refuses redirects of requests with a token. Package http would send the token
// along to another port of the same host, or without TLS.
func keepToken(_ *http.Request, via []*http.Request) error {
	if via[0].Header.Get("Authorization") != "" {
		return http.ErrUseLastResponse
	}
	if len(via) >= 10 {
		return errors.New("it redirects too often")
	}
	return nil
}

// follow asks for the page, and makes the address that it redirects to the base.
func (c *Client) follow(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, c.base.String(), nil)
	if err != nil {
		return err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return plain(err)
	}
	res.Body.Close()
	if to := res.Request.URL; c.token != "" && (to.Host != c.base.Host || to.Scheme != c.base.Scheme) {
		return fmt.Errorf("it redirects to %s://%s, which does not get the token; if that is the inspector, name it", to.Scheme, clean(to.Host))
	}
	c.base = res.Request.URL
	return c.moveOn(ctx)
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// statusError is an answer other than 200.
type statusError struct {
	code int
	text string
}

func (e *statusError) Error() string {
	if e.code == http.StatusUnauthorized {
		return e.text + "; set it in the environment variable " + TokenVariable
	}
	return e.text
}

// TokenVariable is the environment variable with the inspector's token. A flag would show
// it to other users of the machine.
const TokenVariable = "SPINDLE_INSPECT_TOKEN"

// Raw returns the text of an answer of the API.
func (c *Client) Raw(ctx context.Context, name string, params url.Values) ([]byte, error) {
	at := c.base.JoinPath("api", "v1", name)
	at.RawQuery = params.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, plain(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, answerLimit))
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		var answer inspectapi.ErrorAnswer
		if json.Unmarshal(text, &answer) != nil || answer.Error == "" {
			answer.Error = "it answers " + res.Status
		}
		return nil, &statusError{res.StatusCode, clean(answer.Error)}
	}
	return text, nil
}

// Get decodes an answer of the API.
func (c *Client) Get(ctx context.Context, name string, params url.Values, answer any) error {
	text, err := c.Raw(ctx, name, params)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("the answer is not that of an inspector: %w", err)
	}
	return nil
}

// plain removes the method and the address from an error of net/http; the message around it
// names the address.
func plain(err error) error {
	var at *url.Error
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}
