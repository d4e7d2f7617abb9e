package inspect

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// harden sets headers that keep an answer from other pages and from caches.
func harden(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// isPage reports whether a path is that of the page.
func isPage(path string) bool {
	return strings.HasSuffix(path, "/") && !strings.Contains(path, "/api/v1/")
}

// showItself lets another page of this machine find out whether the page is here. That of a
// mounted handler moves to a server on another port. The page has no data.
func showItself(w http.ResponseWriter, r *http.Request) {
	origin, err := url.Parse(r.Header.Get("Origin"))
	if err != nil || !isPage(r.URL.Path) {
		return
	}
	if host := origin.Hostname(); host == "localhost" || host == "127.0.0.1" {
		w.Header().Set("Access-Control-Allow-Origin", origin.Scheme+"://"+origin.Host)
	}
}

// refuse returns the status and the reason with which a request is refused, or 0.
func (h *handler) refuse(r *http.Request) (status int, why string) {
	switch {
	case !h.AllowRemote && !fromHere(r.RemoteAddr):
		return http.StatusForbidden, "only requests from this machine are answered; see Options.AllowRemote"
	case !h.AllowRemote && forwarded(r.Header):
		return http.StatusForbidden, "a proxy on this machine has forwarded the request; see Options.AllowRemote"
	case !h.knowsHost(r.Host):
		return http.StatusForbidden, "the header Host names another host; see Options.Hosts"
	case !sameOrigin(r):
		return http.StatusForbidden, "the request comes from a page of another origin"
	}
	return 0, ""
}

// forwarded reports whether a proxy has forwarded a request. The client may be on any machine
// then, whatever the address of the peer is.
func forwarded(h http.Header) bool {
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Real-Ip"} {
		if _, ok := h[name]; ok {
			return true
		}
	}
	return false
}

// fromHere reports whether a peer is on this machine. The address of a peer on a Unix
// socket has no port.
func fromHere(remote string) bool {
	peer, err := netip.ParseAddrPort(remote)
	if err != nil {
		return remote == "" || remote == "@" || strings.HasPrefix(remote, "/")
	}
	return peer.Addr().Unmap().IsLoopback()
}

// knowsHost reports whether the header Host is one that the handler answers to. A page of
// an attacker can make its own name resolve to a loopback address; its requests have that
// name as their Host.
func (h *handler) knowsHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if host == "localhost" {
		return true
	}
	if addr, err := netip.ParseAddr(host); err == nil && addr.Unmap().IsLoopback() {
		return true
	}
	return slices.ContainsFunc(h.Hosts, func(known string) bool {
		return known == "*" || strings.EqualFold(known, host)
	})
}

// sameOrigin reports whether a request does not come from a page of another origin.
// Programs other than browsers send none of these headers.
func sameOrigin(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
	case "cross-site", "same-site":
		// A link on another page may lead to the page of the inspector, which has no data.
		if !isRead(r) || r.Header.Get("Sec-Fetch-Mode") != "navigate" || !isPage(r.URL.Path) {
			return false
		}
		switch r.Header.Get("Sec-Fetch-Dest") {
		case "", "document":
		default: // a frame or an object in the other page
			return false
		}
	default:
		return false
	}
	origins, ok := r.Header["Origin"]
	if !ok {
		return true
	}
	if len(origins) != 1 {
		return false
	}
	origin, err := url.Parse(origins[0])
	return err == nil && (origin.Scheme == "http" || origin.Scheme == "https") && origin.Host != "" &&
		strings.EqualFold(origin.Host, r.Host)
}

// authorized reports whether the request has the token, in a time that does not depend on
// how much of it is right.
func (h *handler) authorized(r *http.Request) bool {
	if h.Token == "" {
		return true
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
	return subtle.ConstantTimeCompare(sum[:], h.token[:]) == 1 && strings.EqualFold(scheme, "Bearer")
}
