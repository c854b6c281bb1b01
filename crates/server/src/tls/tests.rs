//! Certificates: that clients with the fingerprint accept them, others do not, and that they survive a restart.

use super::*;
use std::os::unix::fs::PermissionsExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use warpyard_api::client::client_config;

/// Whether a client that expects this CA accepts the server.
async fn accepts(tls: &ServerTls, expected: Option<Fingerprint>) -> Result<(), String> {
    let (near, far) = duplex(64 << 10);
    let acceptor = tls.acceptor();
    let serving = tokio::spawn(async move {
        let mut stream = acceptor.accept(far).await?;
        stream.write_all(b"hello").await?;
        stream.shutdown().await
    });
    let connector = TlsConnector::from(Arc::new(client_config(expected).expect("a configuration")));
    let name = ServerName::try_from("some.tunnel.example").expect("a name");
    let result = async {
        let mut stream = connector.connect(name, near).await?;
        let mut said = [0; 5];
        stream.read_exact(&mut said).await?;
        assert_eq!(&said, b"hello");
        Ok::<_, io::Error>(())
    };
    let result = result.await.map_err(|e| e.to_string());
    let _refused_perhaps = serving.await.expect("nothing panics");
    result
}

#[tokio::test]
async fn a_client_with_the_fingerprint_accepts_the_server_under_any_name_and_no_other_server() {
    let (here, elsewhere) =
        (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let tls = |dir: &tempfile::TempDir| ServerTls::with_own_ca(dir.path(), vec!["gpu1".into()]).expect("TLS");
    let (server, other) = (tls(&here), tls(&elsewhere));
    let print = server.ca().expect("a CA").0;
    accepts(&server, Some(print)).await.expect("the right server");
    let refused = accepts(&other, Some(print)).await.expect_err("another server");
    assert!(refused.contains("UnknownIssuer"), "{refused}");
    let again = tls(&here);
    assert_eq!(again.ca().expect("a CA").0, print, "a restart changes nothing");
    accepts(&again, Some(print)).await.expect("the right server");
    let mode =
        |file: &str| fs::metadata(here.path().join(file)).expect("a file").permissions().mode() & 0o777;
    assert_eq!((mode("ca.key"), mode("ca.pem")), (0o600, 0o600));
}

#[tokio::test]
async fn a_certificate_signed_by_another_key_is_not_the_cas() {
    let (here, elsewhere) =
        (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let (ca, other) = (Ca::open(here.path()).expect("a CA"), Ca::open(elsewhere.path()).expect("a CA"));
    // A server that presents the right CA's certificate, which is public, without having its key.
    let (chain, key) = other.issue(&["gpu1".into()]).expect("a certificate");
    let dir = tempfile::tempdir().expect("a directory");
    let pem = |label: &str, der: &[u8]| {
        use base64_of_pem as encode;
        format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", encode(der))
    };
    let (cert_file, key_file) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
    fs::write(&cert_file, pem("CERTIFICATE", &chain[0]) + &ca.pem).expect("a file");
    fs::write(&key_file, pem("PRIVATE KEY", key.secret_der())).expect("a file");
    let forged = ServerTls::with_files(&cert_file, &key_file, None).expect("TLS");
    let refused = accepts(&forged, Some(ca.fingerprint())).await.expect_err("a forgery");
    assert!(refused.contains("UnknownIssuer") || refused.contains("BadSignature"), "{refused}");
}

/// Base64 as in PEM, by the library that reads it back.
fn base64_of_pem(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let word =
            chunk.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * place) & 63) as usize] as char;
            out.push(if place <= chunk.len() { digit } else { '=' });
        }
    }
    out
}

#[tokio::test]
async fn a_certificate_from_files_is_used_with_the_ca_that_is_configured() {
    let (here, dir) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let ca = Ca::open(here.path()).expect("a CA");
    let (chain, key) = ca.issue(&["gpu1".into()]).expect("a certificate");
    let (cert_file, key_file, ca_file) =
        (dir.path().join("cert.pem"), dir.path().join("key.pem"), dir.path().join("ca.pem"));
    let wrapped = |label: &str, der: &[u8]| {
        format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", base64_of_pem(der))
    };
    fs::write(&cert_file, wrapped("CERTIFICATE", &chain[0])).expect("a file");
    fs::write(&key_file, wrapped("PRIVATE KEY", key.secret_der())).expect("a file");
    fs::write(&ca_file, &ca.pem).expect("a file");
    let tls = ServerTls::with_files(&cert_file, &key_file, Some(&ca_file)).expect("TLS");
    accepts(&tls, Some(ca.fingerprint())).await.expect("the CA is presented although the file lacks it");
    let missing = ServerTls::with_files(&dir.path().join("no"), &key_file, None).err().expect("no file");
    assert!(missing.to_string().contains("/no"), "{missing}");
}

#[test]
fn half_a_ca_is_not_replaced() {
    let dir = tempfile::tempdir().expect("a directory");
    Ca::open(dir.path()).expect("a CA");
    fs::remove_file(dir.path().join("ca.key")).expect("it is there");
    let error = Ca::open(dir.path()).expect_err("half a CA").to_string();
    assert!(error.contains("ca.pem is there, but not") && error.contains("new tokens"), "{error}");
}
