//! TLS of the server's port: certificates of its own CA, made in the data directory at the first start, or a certificate
//! from files. Either is renewed while the server runs.
//!
//! The CA signs for this one server, so that clients which know its fingerprint need nothing else. Its key never leaves the
//! data directory; the key of the server's certificate is not stored at all.

#[cfg(test)]
mod tests;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PublicKeyData, SanType,
};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{self, ServerConfig};
use warpyard_api::proof::hex;
use warpyard_api::token::Fingerprint;

/// The CA's certificate and key in the data directory.
pub(crate) const CA_CERT: &str = "ca.pem";
pub(crate) const CA_KEY: &str = "ca.key";

/// How long the CA's certificate is valid.
const CA_LASTS: Duration = Duration::from_secs(20 * 365 * 86_400);

/// How long a certificate of the server is valid, and after how long it is replaced.
const LASTS: Duration = Duration::from_secs(90 * 86_400);
const RENEWED_AFTER: Duration = Duration::from_secs(30 * 86_400);

/// How often certificates from files are read again.
const READ_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// How far certificates are dated back, for clients whose clocks are behind.
const BACKDATED: Duration = Duration::from_secs(86_400);

/// Why the server cannot speak TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read or written.
    #[error("cannot use {} for TLS", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error, or what is wrong with its content.
        source: io::Error,
    },
    /// The CA is incomplete.
    #[error(
        "{} is there, but not {}: restore it from a backup, or remove both to make a new CA, which every worker and every \
         person must then be told of by new tokens", found.display(), missing.display()
    )]
    HalfCa {
        /// The file that is there.
        found: PathBuf,
        /// The file that is not.
        missing: PathBuf,
    },
    /// A certificate cannot be made or used.
    #[error("cannot make a certificate: {0}")]
    Certificate(String),
}

/// Where the server's certificate comes from.
#[derive(Debug)]
enum CertificateSource {
    /// Its own CA.
    OwnCa { ca: Box<Ca>, names: Vec<String> },
    /// Files, in PEM.
    Files { cert: PathBuf, key: PathBuf },
}

/// TLS of a server.
pub(crate) struct ServerTls {
    config: Arc<ServerConfig>,
    ca: Option<(Fingerprint, String)>,
}

impl ServerTls {
    /// TLS with a certificate of the CA in a data directory, which is made if there is none.
    pub(crate) fn with_own_ca(data: &Path, names: Vec<String>) -> Result<ServerTls, TlsError> {
        let ca = Ca::open(data)?;
        let identity = (ca.fingerprint(), ca.pem.clone());
        ServerTls::new(CertificateSource::OwnCa { ca: Box::new(ca), names }, Some(identity))
    }

    /// TLS with a certificate from files, and the CA that clients are to know it by, where that is not a public one.
    pub(crate) fn with_files(cert: &Path, key: &Path, ca: Option<&Path>) -> Result<ServerTls, TlsError> {
        let identity = match ca {
            None => None,
            Some(path) => {
                let failed = |source| TlsError::File { path: path.to_owned(), source };
                let pem = fs::read_to_string(path).map_err(failed)?;
                let der = CertificateDer::from_pem_slice(pem.as_bytes());
                let der = der.map_err(|e| failed(io::Error::other(e.to_string())))?;
                Some((Fingerprint::of_der(&der), pem))
            }
        };
        ServerTls::new(CertificateSource::Files { cert: cert.into(), key: key.into() }, identity)
    }

    fn new(source: CertificateSource, ca: Option<(Fingerprint, String)>) -> Result<ServerTls, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let extra = ca.as_ref().and_then(|(_, pem)| CertificateDer::from_pem_slice(pem.as_bytes()).ok());
        let resolver = Resolver::new(source, extra, provider.clone())?;
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| TlsError::Certificate(e.to_string()))?;
        let mut config = config.with_no_client_auth().with_cert_resolver(Arc::new(resolver));
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(ServerTls { config: Arc::new(config), ca })
    }

    /// Accepts TLS on connections.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.config.clone())
    }

    /// The CA by which clients know the server: fingerprint and PEM; none where its certificate is a public CA's.
    pub(crate) fn ca(&self) -> Option<&(Fingerprint, String)> {
        self.ca.as_ref()
    }
}

/// A CA that signs for this server alone.
struct Ca {
    issuer: Issuer<'static, KeyPair>,
    der: CertificateDer<'static>,
    pem: String,
}

impl std::fmt::Debug for Ca {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ca").field("fingerprint", &self.fingerprint()).finish_non_exhaustive()
    }
}

impl Ca {
    /// The CA of a data directory, made if there is none.
    fn open(data: &Path) -> Result<Ca, TlsError> {
        let (cert, key) = (data.join(CA_CERT), data.join(CA_KEY));
        match (cert.exists(), key.exists()) {
            (true, true) => Ca::read(&cert, &key),
            (false, false) => Ca::make(data, &cert, &key),
            (true, false) => Err(TlsError::HalfCa { found: cert, missing: key }),
            (false, true) => Err(TlsError::HalfCa { found: key, missing: cert }),
        }
    }

    fn read(cert: &Path, key: &Path) -> Result<Ca, TlsError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| TlsError::File { path, source }
        };
        let pem = fs::read_to_string(cert).map_err(failed(cert))?;
        let der = CertificateDer::from_pem_slice(pem.as_bytes())
            .map_err(|e| failed(cert)(io::Error::other(e.to_string())))?;
        let text = fs::read_to_string(key).map_err(failed(key))?;
        let pair = KeyPair::from_pem(&text).map_err(|e| failed(key)(io::Error::other(e.to_string())))?;
        Ok(Ca { issuer: Issuer::new(ca_params(&pair), pair), der, pem })
    }

    fn make(dir: &Path, cert: &Path, key: &Path) -> Result<Ca, TlsError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| TlsError::File { path, source }
        };
        let pair = KeyPair::generate().map_err(unmade)?;
        let params = ca_params(&pair);
        let made = params.self_signed(&pair).map_err(unmade)?;
        // The key first: a certificate without its key is found by nobody.
        write_private(key, &pair.serialize_pem()).map_err(failed(key))?;
        write_private(cert, &made.pem()).map_err(failed(cert))?;
        fs::File::open(dir).and_then(|dir| dir.sync_all()).map_err(failed(dir))?;
        Ok(Ca { der: made.der().clone(), pem: made.pem(), issuer: Issuer::new(params, pair) })
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of_der(&self.der)
    }

    /// A new certificate for these names, with its key.
    fn issue(
        &self,
        names: &[String],
    ) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
        let pair = KeyPair::generate().map_err(unmade)?;
        let mut params = CertificateParams::default();
        // A name that cannot be in a certificate is left out: those with the fingerprint do not look at it.
        params.subject_alt_names = names.iter().filter_map(|name| san(name)).collect();
        params.distinguished_name = common_name("warpyard server");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        (params.not_before, params.not_after) = validity(LASTS);
        let made = params.signed_by(&pair, &self.issuer).map_err(unmade)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(pair.serialize_der()));
        Ok((vec![made.der().clone(), self.der.clone()], key))
    }
}

/// The CA's parameters. They follow from its key, so that a stored one signs as it did.
fn ca_params(key: &KeyPair) -> CertificateParams {
    let mut params = CertificateParams::default();
    let of_key = hex(&Sha256::digest(key.subject_public_key_info())[..6]);
    params.distinguished_name = common_name(&format!("warpyard CA {of_key}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    (params.not_before, params.not_after) = validity(CA_LASTS);
    params
}

fn common_name(name: &str) -> DistinguishedName {
    let mut all = DistinguishedName::new();
    all.push(DnType::CommonName, name);
    all
}

fn san(name: &str) -> Option<SanType> {
    match name.parse::<IpAddr>() {
        Ok(ip) => Some(SanType::IpAddress(ip)),
        Err(_) => name.to_owned().try_into().ok().map(SanType::DnsName),
    }
}

fn unmade(error: rcgen::Error) -> TlsError {
    TlsError::Certificate(error.to_string())
}

/// Writes a file for its owner alone, and syncs it.
fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Resolves the server's certificate, and renews it.
#[derive(Debug)]
struct Resolver {
    source: CertificateSource,
    /// The configured CA, added to a chain from a file that lacks it: clients must see it to compare its fingerprint.
    ca: Option<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
    current: Mutex<(Arc<CertifiedKey>, SystemTime)>,
}

impl Resolver {
    fn new(
        source: CertificateSource,
        ca: Option<CertificateDer<'static>>,
        provider: Arc<CryptoProvider>,
    ) -> Result<Resolver, TlsError> {
        let first = load(&source, ca.as_ref(), &provider)?;
        let renewed = SystemTime::now() + source.lasts();
        Ok(Resolver { source, ca, provider, current: Mutex::new((Arc::new(first), renewed)) })
    }
}

impl CertificateSource {
    /// How long a loaded certificate is used.
    fn lasts(&self) -> Duration {
        match self {
            CertificateSource::OwnCa { .. } => RENEWED_AFTER,
            CertificateSource::Files { .. } => READ_AGAIN_AFTER,
        }
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let (now, mut current) =
            (SystemTime::now(), self.current.lock().expect("nothing panics while holding it"));
        if current.1 <= now {
            match load(&self.source, self.ca.as_ref(), &self.provider) {
                Ok(renewed) => current.0 = Arc::new(renewed),
                Err(e) => tracing::warn!("the certificate cannot be renewed, and the present one stays: {e}"),
            }
            current.1 = now + self.source.lasts();
        }
        Some(current.0.clone())
    }
}

/// The certificate and key of a source, ready for use.
fn load(
    source: &CertificateSource,
    ca: Option<&CertificateDer<'static>>,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, TlsError> {
    let (mut chain, key) = match source {
        CertificateSource::OwnCa { ca, names } => ca.issue(names)?,
        CertificateSource::Files { cert, key } => from_files(cert, key)?,
    };
    if let Some(ca) = ca.filter(|ca| !chain.contains(ca)) {
        chain.push(ca.clone());
    }
    CertifiedKey::from_der(chain, key, provider)
        .map_err(|e: rustls::Error| TlsError::Certificate(e.to_string()))
}

fn from_files(
    cert: &Path,
    key: &Path,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    let failed =
        |path: &Path, why: String| TlsError::File { path: path.to_owned(), source: io::Error::other(why) };
    let chain: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(cert).map_err(|e| failed(cert, e.to_string()))?.collect();
    let chain = chain.map_err(|e| failed(cert, e.to_string()))?;
    if chain.is_empty() {
        return Err(failed(cert, "it has no certificate in PEM".into()));
    }
    let key = PrivateKeyDer::from_pem_file(key).map_err(|e| failed(key, e.to_string()))?;
    Ok((chain, key))
}

/// The names and addresses a certificate for this machine has: those configured, its host name, and those of its network
/// interfaces.
pub(crate) fn names_of(configured: impl Iterator<Item = String>, machine: &str) -> Vec<String> {
    let mut names: BTreeSet<String> = configured.filter(|name| !name.is_empty()).collect();
    names.extend([machine.to_owned(), "localhost".into(), "127.0.0.1".into(), "::1".into()]);
    names.extend(interface_addresses().map(|ip| ip.to_string()));
    names.into_iter().collect()
}

/// The addresses of this machine's network interfaces.
pub(crate) fn interface_addresses() -> impl Iterator<Item = IpAddr> {
    let all = nix::ifaddrs::getifaddrs().into_iter().flatten();
    all.filter_map(|interface| {
        let address = interface.address?;
        let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
    })
}

/// When a certificate that lasts so long from now begins and ends.
fn validity(lasts: Duration) -> (time::OffsetDateTime, time::OffsetDateTime) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let at = |moment: Duration| {
        let seconds = i64::try_from(moment.as_secs()).unwrap_or(i64::MAX);
        time::OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(time::OffsetDateTime::UNIX_EPOCH)
    };
    (at(now.saturating_sub(BACKDATED)), at(now + lasts))
}
