//go:build spindle_python

package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"
)

// config is the configuration of a server, as Python passes it. Times are in seconds;
// zero means the default of package web, and a negative time means no limit.
type config struct {
	FDs  []int  `json:"fds"`
	HTTP string `json:"http"` // auto, 1 or 2: the protocols that are spoken

	CertFile  string `json:"cert_file"`
	KeyFile   string `json:"key_file"`
	Password  string `json:"key_password"` // empty for a key that is not encrypted
	CAFile    string `json:"ca_file"`      // of client certificates; empty for none
	CertReqs  string `json:"cert_reqs"`    // of clients, if there is a CAFile: none, optional or required
	OnlyTLS12 bool   `json:"only_tls12"`
	Ciphers   string `json:"ciphers"` // of TLS 1.2, as OpenSSL lists them; empty for Go's

	HeaderTimeout float64 `json:"header_timeout"`
	BodyTimeout   float64 `json:"body_timeout"`
	IdleTimeout   float64 `json:"idle_timeout"`
	DrainIdle     float64 `json:"drain_idle"`
	WriteTimeout  float64 `json:"write_timeout"`

	MaxHeaderBytes     int   `json:"max_header_bytes"`
	MaxHeaderFields    int   `json:"max_header_fields"`
	MaxRequestLine     int   `json:"max_request_line"`
	MaxBodyBytes       int64 `json:"max_body_bytes"`
	MaxConns           int   `json:"max_connections"`
	MaxStreams         int   `json:"max_streams"` // of a connection of HTTP/2
	MaxRequestsPerConn int   `json:"max_requests_per_connection"`

	AccessLog string  `json:"access_log"` // common, combined or json; empty for none
	Forwarded *string `json:"forwarded"`  // peers with X-Forwarded-For that counts; nil for none

	WSMaxSize      int     `json:"ws_max_size"`
	WSMaxQueue     int     `json:"ws_max_queue"` // messages that wait for the app; 0 for any number
	WSPingInterval float64 `json:"ws_ping_interval"`
	WSPingTimeout  float64 `json:"ws_ping_timeout"`
	WSCompress     bool    `json:"ws_compress"`

	Static  []staticDir  `json:"static"`
	Tally   *sharedTally `json:"tally"`   // nil for a process without a supervisor
	Metrics string       `json:"metrics"` // paths that Go answers; empty for none
	Health  string       `json:"health"`
	Ready   string       `json:"ready"`

	Server string      `json:"server"` // the field Server; empty for none
	Date   bool        `json:"date"`   // responses have the field Date
	Fields [][2]string `json:"fields"` // for every response: name and value

	own bool // Go answers some paths
}

// staticDir is a directory that Go serves.
type staticDir struct {
	Prefix string `json:"prefix"`
	Dir    string `json:"dir"`
}

func (c *config) secure() bool { return c.CertFile != "" }

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// apply configures the server.
func (c *config) apply(s *server) error {
	if err := s.counters.open(c.Tally); err != nil {
		return err
	}
	w := &s.web
	w.HeaderTimeout, w.BodyTimeout = seconds(c.HeaderTimeout), seconds(c.BodyTimeout)
	w.IdleTimeout, w.WriteTimeout = seconds(c.IdleTimeout), seconds(c.WriteTimeout)
	w.DrainIdle = seconds(c.DrainIdle)
	w.MaxHeaderBytes, w.MaxRequestLineBytes, w.MaxBodyBytes = c.MaxHeaderBytes, c.MaxRequestLine, c.MaxBodyBytes
	w.MaxConns, w.MaxRequestsPerConn, w.MaxHeaderFields = c.MaxConns, c.MaxRequestsPerConn, c.MaxHeaderFields
	w.Refused, w.NoDate = s.refused, !c.Date
	w.Protocols = new(http.Protocols)
	w.Protocols.SetHTTP1(c.HTTP != "2")
	w.Protocols.SetHTTP2(c.HTTP != "1")
	w.Protocols.SetUnencryptedHTTP2(c.HTTP != "1")
	w.ExtendedConnect = true
	w.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: c.MaxStreams}
	w.ErrorLog = newPythonLog("spindle.server")
	for i := range c.Static {
		c.Static[i].Prefix = strings.TrimSuffix(c.Static[i].Prefix, "/")
	}
	c.own = len(c.Static) > 0 || c.Metrics+c.Health+c.Ready != ""
	w.Handler = s.handler()
	if c.AccessLog != "" {
		s.log = &accessLog{l: s.p.l, to: os.Stdout, format: c.AccessLog}
		if c.Forwarded != nil {
			s.log.proxies = newProxies(*c.Forwarded)
		}
	}
	if !c.secure() {
		return nil
	}
	var err error
	w.TLS, err = c.tls(w.ErrorLog)
	return err
}

// addDefaults adds the fields that every response has to those of one that Go sends. They follow
// those of the app.
func (c *config) addDefaults(h http.Header) {
	if c.Server != "" && h.Get("Server") == "" {
		addInOrder(h, "Server", c.Server)
	}
	for _, f := range c.Fields {
		addInOrder(h, f[0], f[1])
	}
}

var clientAuth = map[string]tls.ClientAuthType{
	"none": tls.NoClientCert, "optional": tls.VerifyClientCertIfGiven, "required": tls.RequireAndVerifyClientCert,
}

func (c *config) tls(log *slog.Logger) (*tls.Config, error) {
	key := c.KeyFile
	if key == "" {
		key = c.CertFile
	}
	pair, err := loadKeyPair(c.CertFile, key, c.Password)
	if err != nil {
		return nil, fmt.Errorf("spindle: certificate: %w", err)
	}
	t := &tls.Config{Certificates: []tls.Certificate{pair}}
	if c.OnlyTLS12 {
		t.MinVersion, t.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	}
	if c.Ciphers != "" {
		var skipped []string
		if t.CipherSuites, skipped, err = parseCiphers(c.Ciphers); err != nil {
			return nil, err
		}
		if len(skipped) > 0 {
			log.Warn("spindle: ssl_ciphers: Go has none of these for TLS 1.2, so they are left out", "ciphers", strings.Join(skipped, ":"))
		}
		if c.HTTP != "1" && !isForHTTP2(t.CipherSuites) {
			return nil, fmt.Errorf("spindle: ssl_ciphers: HTTP/2 forbids all of %q; choose others, or http 1", c.Ciphers)
		}
	}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("spindle: certificates of clients: %w", err)
		}
		t.ClientCAs, t.ClientAuth = x509.NewCertPool(), clientAuth[c.CertReqs]
		if !t.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, errors.New("spindle: no certificate in " + c.CAFile)
		}
	}
	return t, nil
}
