//go:build spindle_python

package main

import (
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
)

// cipherSuite is a suite of TLS 1.2 by its names of IANA and OpenSSL, and by the words that OpenSSL has for its parts.
type cipherSuite struct {
	id    uint16
	iana  string
	name  string
	words []string
}

// cipherSuites returns the suites that a server may be limited to. Suites of TLS 1.3 cannot be chosen with Go.
func cipherSuites() []cipherSuite {
	parts := []struct {
		iana, name string
		words      []string
	}{
		{"ECDHE_RSA", "ECDHE-RSA", []string{"ECDHE", "EECDH", "kECDHE", "kEECDH", "aRSA"}},
		{"ECDHE_ECDSA", "ECDHE-ECDSA", []string{"ECDHE", "EECDH", "kECDHE", "kEECDH", "aECDSA", "ECDSA"}},
		{"AES_128_GCM_SHA256", "AES128-GCM-SHA256", []string{"AES", "AES128", "AESGCM", "SHA256", "TLSv1.2"}},
		{"AES_256_GCM_SHA384", "AES256-GCM-SHA384", []string{"AES", "AES256", "AESGCM", "SHA384", "TLSv1.2"}},
		{"CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305", []string{"CHACHA20", "TLSv1.2"}},
		{"AES_128_CBC_SHA", "AES128-SHA", []string{"AES", "AES128", "SHA", "SHA1"}},
		{"AES_256_CBC_SHA", "AES256-SHA", []string{"AES", "AES256", "SHA", "SHA1"}},
	}
	var suites []cipherSuite
	for _, s := range tls.CipherSuites() {
		exchange, cipher, ok := strings.Cut(strings.TrimPrefix(s.Name, "TLS_"), "_WITH_")
		if !ok {
			continue // of TLS 1.3
		}
		found := cipherSuite{id: s.ID, iana: s.Name, words: []string{"ALL", "DEFAULT", "HIGH"}}
		var names []string
		for _, p := range parts {
			if p.iana == exchange || p.iana == cipher {
				names = append(names, p.name)
				found.words = append(found.words, p.words...)
			}
		}
		if len(names) == 2 {
			found.name = strings.Join(names, "-")
			suites = append(suites, found)
		}
	}
	return suites
}

// has reports whether the suite is one of those that a word of OpenSSL's lists stands for, such as ECDHE+AESGCM.
func (s *cipherSuite) has(word string) bool {
	if word == s.name || word == s.iana {
		return true
	}
	for part := range strings.SplitSeq(word, "+") {
		if !slices.Contains(s.words, part) {
			return false
		}
	}
	return true
}

// excluded are OpenSSL's words for suites that Go does not serve, so that a list may exclude them.
var excluded = strings.Fields("aNULL eNULL NULL ADH AECDH EXP EXPORT LOW MEDIUM MD5 RC4 DES 3DES IDEA SEED CAMELLIA ARIA DSS aDSS PSK SRP kRSA RSA DH DHE EDH kDHE AESCCM AESCCM8")

// parseCiphers returns the suites of TLS 1.2 that a list in the format of OpenSSL names. Their order does not count. Like
// OpenSSL it skips the words for which there is no suite, as long as one remains, and returns them.
func parseCiphers(list string) (ids []uint16, skipped []string, err error) {
	chosen, never := map[uint16]bool{}, map[uint16]bool{}
	suites := cipherSuites()
	for _, word := range strings.FieldsFunc(list, func(r rune) bool { return strings.ContainsRune(":, ", r) }) {
		bare := strings.TrimLeft(word, "!-+")
		operator := word[:len(word)-len(bare)]
		known := word == "@STRENGTH" || operator != "" && slices.Contains(excluded, bare)
		for _, s := range suites {
			if s.has(bare) {
				known = true
				switch operator {
				case "":
					chosen[s.id] = true
				case "-":
					delete(chosen, s.id)
				case "!":
					never[s.id] = true
				} // + only changes the order
			}
		}
		if !known || len(operator) > 1 {
			skipped = append(skipped, word)
		}
	}
	for _, s := range suites {
		if chosen[s.id] && !never[s.id] {
			ids = append(ids, s.id)
		}
	}
	switch {
	case len(ids) > 0:
		return ids, skipped, nil
	case len(skipped) > 0:
		return nil, nil, unknownCipher(skipped[0], suites)
	}
	return nil, nil, fmt.Errorf("spindle: ssl_ciphers: %q leaves no cipher", list)
}

func unknownCipher(word string, suites []cipherSuite) error {
	if slices.ContainsFunc(tls.CipherSuites(), func(s *tls.CipherSuite) bool {
		return s.Name == word && slices.Contains(s.SupportedVersions, tls.VersionTLS13)
	}) {
		return fmt.Errorf("spindle: ssl_ciphers: %s is of TLS 1.3, and its ciphers are always those of Go; the list is for TLS 1.2", word)
	}
	names := make([]string, len(suites))
	for i, s := range suites {
		names[i] = s.name
	}
	return fmt.Errorf("spindle: ssl_ciphers: Go has no ciphers for %q; there are %s, and words such as ECDHE+AESGCM", word, strings.Join(names, ", "))
}

// isForHTTP2 reports whether HTTP/2 allows one of the suites: those with CBC are forbidden (RFC 9113, appendix A).
func isForHTTP2(ids []uint16) bool {
	return slices.ContainsFunc(ids, func(id uint16) bool { return !strings.Contains(tls.CipherSuiteName(id), "_CBC_") })
}
