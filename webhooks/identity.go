package webhooks

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"
)

// identity is who we are on a connection over TLS, and whom we believe.
type identity struct {
	// digest is the same for what was made of the same texts, and for nothing else.
	digest string
	// certificate is ours, nil if there is none.
	certificate *tls.Certificate
	// roots replace those of the system, nil if they do not.
	roots *x509.CertPool

	// Of each text the certificates, for their times.
	chain, authorities []*x509.Certificate
}

// newIdentity returns nil for empty texts.
func newIdentity(certificate, key, roots string) (*identity, error) {
	if certificate == "" && key == "" && roots == "" {
		return nil, nil
	}
	id := &identity{digest: digest(certificate, key, roots)}
	if err := id.readOwn(certificate, key); err != nil {
		return nil, err
	}
	if roots == "" {
		return id, nil
	}
	var err error
	if id.authorities, err = parseCertificates(roots, maxRootsPEM); err != nil {
		return nil, &CredentialsError{"root_cas", err.Error()}
	}
	id.roots = x509.NewCertPool()
	for _, ca := range id.authorities {
		id.roots.AddCert(ca)
	}
	return id, nil
}

func (id *identity) readOwn(certificate, key string) error {
	switch {
	case certificate == "" && key == "":
		return nil
	case certificate == "":
		return &CredentialsError{"client_certificate", "is missing, and client_key is there"}
	case key == "":
		return &CredentialsError{"client_key", "is missing, and client_certificate is there"}
	}
	var err error
	if id.chain, err = parseCertificates(certificate, maxPEM); err != nil {
		return &CredentialsError{"client_certificate", err.Error()}
	}
	if err := checkKeyPEM(key); err != nil {
		return &CredentialsError{"client_key", err.Error()}
	}
	pair, err := tls.X509KeyPair([]byte(certificate), []byte(key))
	if err != nil {
		// The certificate was read above, so it is the key. The error might quote it.
		return &CredentialsError{"client_key", "is not a private key that fits client_certificate"}
	}
	id.certificate = &pair
	return nil
}

func parseCertificates(text string, most int) ([]*x509.Certificate, error) {
	if len(text) > most {
		return nil, fmt.Errorf("is longer than %d bytes", most)
	}
	var all []*x509.Certificate
	rest := []byte(text)
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("has a PEM block that is not a certificate, but %.30q", block.Type)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("has a certificate, its number %d, that cannot be read", len(all)+1)
		}
		all = append(all, c)
	}
	if len(all) == 0 {
		return nil, errors.New("has no certificate in PEM")
	}
	return all, nil
}

// checkKeyPEM finds what is wrong with a key before it is read, to say so in plain words.
func checkKeyPEM(text string) error {
	if len(text) > maxPEM {
		return fmt.Errorf("is longer than %d bytes", maxPEM)
	}
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return errors.New("has no private key in PEM")
		}
		if !strings.HasSuffix(block.Type, "PRIVATE KEY") {
			continue // such as the parameters of a curve
		}
		if block.Type == "ENCRYPTED PRIVATE KEY" || block.Headers["DEK-Info"] != "" {
			return errors.New("is encrypted; give it without a passphrase")
		}
		return nil
	}
}

// checkTimes returns an error if a certificate is out of its time. nil has none.
func (id *identity) checkTimes() error {
	if id == nil {
		return nil
	}
	if err := checkTimes("client_certificate", id.chain); err != nil {
		return err
	}
	return checkTimes("root_cas", id.authorities)
}

func checkTimes(field string, certificates []*x509.Certificate) error {
	now := time.Now()
	for i, c := range certificates {
		which := ""
		if len(certificates) > 1 {
			which = fmt.Sprintf("has a certificate, its number %d, that ", i+1)
		}
		if now.After(c.NotAfter) {
			return &CredentialsError{field, which + "expired at " + c.NotAfter.UTC().Format(time.RFC3339)}
		}
		if now.Before(c.NotBefore) {
			return &CredentialsError{field, which + "is not valid before " + c.NotBefore.UTC().Format(time.RFC3339)}
		}
	}
	return nil
}

func digest(texts ...string) string {
	h := sha256.New()
	for _, text := range texts {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(text))))
		h.Write([]byte(text))
	}
	return string(h.Sum(nil))
}
