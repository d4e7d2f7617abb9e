//go:build spindle_python

package main

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/des"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"hash"
	"os"
)

// loadKeyPair is tls.LoadX509KeyPair, for a key that may be encrypted with a password: in PKCS #8, as OpenSSL
// writes keys today, or in the way that it did before.
func loadKeyPair(certFile, keyFile, password string) (tls.Certificate, error) {
	if password == "" {
		return tls.LoadX509KeyPair(certFile, keyFile)
	}
	chain, err := os.ReadFile(certFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	text, err := os.ReadFile(keyFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	var plain []byte
	for rest := text; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block, err = decryptBlock(block, password); err != nil {
			return tls.Certificate{}, fmt.Errorf("%s: %w", keyFile, err)
		}
		plain = append(plain, pem.EncodeToMemory(block)...)
	}
	return tls.X509KeyPair(chain, plain)
}

// decryptBlock returns the block in plain. Blocks that are not encrypted are returned as they are.
func decryptBlock(b *pem.Block, password string) (*pem.Block, error) {
	if b.Type == "ENCRYPTED PRIVATE KEY" {
		key, err := decryptPKCS8(b.Bytes, password)
		return &pem.Block{Type: "PRIVATE KEY", Bytes: key}, err
	}
	//lint:ignore SA1019 the format is insecure, and the keys exist
	if !x509.IsEncryptedPEMBlock(b) {
		return b, nil
	}
	//lint:ignore SA1019 as above
	key, err := x509.DecryptPEMBlock(b, []byte(password))
	if err != nil {
		return nil, errWrongPassword
	}
	return &pem.Block{Type: b.Type, Bytes: key}, nil
}

var (
	errWrongPassword = errors.New("the password of the key is wrong")

	oidPBES2  = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 13}
	oidPBKDF2 = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 12}

	// keyHashes are the functions of PBKDF2, by the identifiers of their HMACs.
	keyHashes = map[string]func() hash.Hash{
		"1.2.840.113549.2.7": sha1.New, "1.2.840.113549.2.9": sha256.New,
		"1.2.840.113549.2.10": sha512.New384, "1.2.840.113549.2.11": sha512.New,
	}
	keyCiphers = map[string]struct {
		size int
		new  func([]byte) (cipher.Block, error)
	}{
		"2.16.840.1.101.3.4.1.2": {16, aes.NewCipher}, "2.16.840.1.101.3.4.1.22": {24, aes.NewCipher},
		"2.16.840.1.101.3.4.1.42": {32, aes.NewCipher}, "1.2.840.113549.3.7": {24, des.NewTripleDESCipher},
	}
)

// encryptedKey is a key that is encrypted by PBES2 (RFC 8018, A.4).
type encryptedKey struct {
	Scheme struct {
		Algorithm  asn1.ObjectIdentifier
		Parameters struct {
			Derivation struct {
				Algorithm  asn1.ObjectIdentifier
				Parameters struct {
					Salt       []byte
					Iterations int
					Length     int                      `asn1:"optional"`
					HMAC       pkix.AlgorithmIdentifier `asn1:"optional"`
				}
			}
			Cipher struct {
				Algorithm asn1.ObjectIdentifier
				IV        []byte
			}
		}
	}
	Data []byte
}

// mostIterations of PBKDF2 take some seconds.
const mostIterations = 10_000_000

// decryptPKCS8 decrypts a key in PKCS #8.
func decryptPKCS8(der []byte, password string) ([]byte, error) {
	var k encryptedKey
	_, err := asn1.Unmarshal(der, &k)
	derivation, scheme := k.Scheme.Parameters.Derivation, k.Scheme.Parameters.Cipher
	newHash := keyHashes[derivation.Parameters.HMAC.Algorithm.String()]
	if len(derivation.Parameters.HMAC.Algorithm) == 0 {
		newHash = sha1.New // the default
	}
	kind := keyCiphers[scheme.Algorithm.String()]
	if err != nil || !k.Scheme.Algorithm.Equal(oidPBES2) || !derivation.Algorithm.Equal(oidPBKDF2) || newHash == nil || kind.new == nil {
		return nil, errors.New("the key is encrypted in a way that is not supported; " +
			"openssl pkcs8 -topk8 -v2 aes-256-cbc encrypts it in one that is")
	}
	if n := derivation.Parameters.Iterations; n < 1 || n > mostIterations {
		return nil, fmt.Errorf("the encrypted key asks for %d iterations", n)
	}
	key, err := pbkdf2.Key(newHash, password, derivation.Parameters.Salt, derivation.Parameters.Iterations, kind.size)
	if err != nil {
		return nil, err
	}
	block, err := kind.new(key)
	if err != nil {
		return nil, err
	}
	if size := block.BlockSize(); len(scheme.IV) != size || len(k.Data) == 0 || len(k.Data)%size != 0 {
		return nil, errors.New("the encrypted key is malformed")
	}
	cipher.NewCBCDecrypter(block, scheme.IV).CryptBlocks(k.Data, k.Data)
	padding := int(k.Data[len(k.Data)-1])
	if padding < 1 || padding > block.BlockSize() {
		return nil, errWrongPassword
	}
	plain := k.Data[:len(k.Data)-padding]
	if _, err := x509.ParsePKCS8PrivateKey(plain); err != nil {
		return nil, errWrongPassword
	}
	return plain, nil
}
