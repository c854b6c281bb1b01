//! TLS to a server. Its certificate must come from the CA whose fingerprint is known from a token or a login; without a
//! fingerprint, from a CA that this machine trusts.
//!
//! With a fingerprint the name in the certificate is not compared: that CA signs for this one server only, whose machine may
//! be reached by names and through tunnels it knows nothing of.

use super::stream::VerificationError;
use crate::token::Fingerprint;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_cert_signed_by_trust_anchor};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore,
    SignatureScheme, StreamOwned,
};
use std::io;
use std::net::TcpStream;
use std::sync::{Arc, Mutex, OnceLock};

/// A TLS connection.
pub(super) type TlsStream = StreamOwned<ClientConnection, TcpStream>;

/// Configuration of TLS connections to a server, for clients other than [`Client`](super::Client).
pub fn client_config(ca: Option<Fingerprint>) -> io::Result<ClientConfig> {
    config(Arc::new(verifier(ca)?))
}

/// The error of a handshake that failed because of the server's certificate, from what the verifier saw.
pub(super) fn handshake(mut stream: TcpStream, host: &str, ca: Option<Fingerprint>) -> io::Result<TlsStream> {
    let verifier = Arc::new(verifier(ca)?);
    let name = ServerName::try_from(name_of(host).to_owned()).map_err(|_| {
        io::Error::new(io::ErrorKind::InvalidInput, format!("'{host}' is not the name of a host"))
    })?;
    let mut connection =
        ClientConnection::new(Arc::new(config(verifier.clone())?), name).map_err(io::Error::other)?;
    while connection.is_handshaking() {
        connection.complete_io(&mut stream).map_err(|e| explained(e, &verifier))?;
    }
    Ok(StreamOwned::new(connection, stream))
}

/// The host of a host and port, without the brackets of an IPv6 address.
fn name_of(host: &str) -> &str {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name)
}

/// What a failed handshake means.
fn explained(error: io::Error, verifier: &CaVerifier) -> io::Error {
    let Some(tls) = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) else { return error };
    let found = *verifier.found.lock().expect("nothing panics while holding it");
    let distrust = match (tls, verifier.ca, found) {
        (Error::InvalidCertificate(_), Some(expected), Some(found)) if expected != found => {
            VerificationError::Fingerprint { expected, found }
        }
        (Error::InvalidCertificate(why), None, Some(found)) => {
            VerificationError::NoKnownCa { found, fault: format!("{why:?}") }
        }
        (Error::InvalidMessage(_), ..) => VerificationError::NoTls,
        (other, ..) => VerificationError::Tls(other.to_string()),
    };
    distrust.into()
}

fn config(verifier: Arc<CaVerifier>) -> io::Result<ClientConfig> {
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    let mut config = config.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    PROVIDER.get_or_init(|| Arc::new(ring::default_provider())).clone()
}

fn verifier(ca: Option<Fingerprint>) -> io::Result<CaVerifier> {
    let system = match ca {
        Some(_) => None,
        None => Some(system_verifier()?),
    };
    Ok(CaVerifier { ca, system, found: Mutex::default() })
}

/// The verifier by the CAs that this machine trusts, which are read once.
fn system_verifier() -> io::Result<Arc<WebPkiServerVerifier>> {
    static SYSTEM: OnceLock<Option<Arc<WebPkiServerVerifier>>> = OnceLock::new();
    let made = SYSTEM.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider()).build().ok()
    });
    made.clone().ok_or_else(|| {
        let why = "this machine has no list of trusted CAs to check the server's certificate by; give its \
                   fingerprint with a token, or with WARPYARD_CA";
        io::Error::new(io::ErrorKind::NotFound, why)
    })
}

/// Verifies a server's certificate by the fingerprint of its CA, or by the CAs that this machine trusts.
#[derive(Debug)]
struct CaVerifier {
    ca: Option<Fingerprint>,
    system: Option<Arc<WebPkiServerVerifier>>,
    /// The fingerprint of the CA that the server presented.
    found: Mutex<Option<Fingerprint>>,
}

impl CaVerifier {
    /// The certificate comes from the presented certificate with this fingerprint, or is that one itself.
    fn verify_by_fingerprint(
        &self,
        ca: Fingerprint,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if Fingerprint::of_der(end_entity) == ca {
            return Ok(ServerCertVerified::assertion());
        }
        let unknown = Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let known = intermediates.iter().find(|der| Fingerprint::of_der(der) == ca).ok_or(unknown)?;
        let mut roots = RootCertStore::empty();
        roots.add(known.clone().into_owned())?;
        let algorithms = provider().signature_verification_algorithms;
        let parsed = ParsedCertificate::try_from(end_entity)?;
        verify_server_cert_signed_by_trust_anchor(&parsed, &roots, intermediates, now, algorithms.all)?;
        Ok(ServerCertVerified::assertion())
    }
}

impl ServerCertVerifier for CaVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let top = intermediates.last().unwrap_or(end_entity);
        *self.found.lock().expect("nothing panics while holding it") = Some(Fingerprint::of_der(top));
        match (self.ca, &self.system) {
            (Some(ca), _) => self.verify_by_fingerprint(ca, end_entity, intermediates, now),
            (None, Some(system)) => {
                system.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
            }
            (None, None) => Err(Error::InvalidCertificate(CertificateError::UnknownIssuer)),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, signed, &provider().signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, signed, &provider().signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}
