package webhooks

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"
)

// authority issues certificates for tests.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         string
}

// period is when a certificate is valid, from and until a time from now.
type period struct{ from, until time.Duration }

var nowadays = period{-time.Hour, time.Hour}

func newAuthority(t *testing.T, p period) *authority {
	t.Helper()
	a := &authority{key: newECDSA(t)}
	template := certificateTemplate(p)
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.certificate, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pem = pemOf("CERTIFICATE", der)
	return a
}

// issue returns a certificate for 127.0.0.1 and its key, as PEM.
func (a *authority) issue(t *testing.T, p period) (certificate, key string) {
	t.Helper()
	private := newECDSA(t)
	der, err := x509.CreateCertificate(rand.Reader, certificateTemplate(p), a.certificate, private.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pemOf("CERTIFICATE", der), pemOf("PRIVATE KEY", keyDER)
}

// server is the configuration of one with a certificate of this authority.
func (a *authority) server(t *testing.T) *tls.Config {
	t.Helper()
	pair, err := tls.X509KeyPair(pair(a.issue(t, nowadays)))
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}}
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.certificate)
	return p
}

func pair(certificate, key string) (c, k []byte) { return []byte(certificate), []byte(key) }

func newECDSA(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func certificateTemplate(p period) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62))
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "posthaste test"},
		NotBefore: time.Now().Add(p.from), NotAfter: time.Now().Add(p.until),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
}

func pemOf(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}
